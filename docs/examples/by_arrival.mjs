// The same accumulator with a classic mistake: a fragment goes to the call that arrived last, whatever its index.
//
// harness check --jsonl --claims docs/examples/javascript.yaml -- node docs/examples/by_arrival.mjs --jsonl
import { Accumulator, main } from "./accumulator.mjs";

class ByArrival extends Accumulator {
  callOf(state, fragment) {
    const last = state.calls.at(-1);
    return last && !fragment.id ? last : this.open(state, fragment);
  }
}

main(new ByArrival());
