// An accumulator for chat completions, and a target around it: node accumulator.mjs [--jsonl]
//
// harness check --jsonl --claims docs/examples/javascript.yaml -- node docs/examples/accumulator.mjs --jsonl
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FINISH = { end_turn: "stop", eos: "stop", max_tokens: "length", function_call: "tool_calls" };
const NORMAL = ["stop", "length", "tool_calls", "content_filter", "error"];

/** Bytes in, cut anywhere; server-sent events out, one call of `onEvent(data, name)` each. */
export class EventReader {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.decoder = new TextDecoder(); // drops a byte order mark, holds back an unfinished character
    this.rest = ""; // the unfinished line
    this.afterCR = false; // the last piece ended in CR: an LF that follows belongs to it
    this.data = [];
    this.name = "";
  }

  feed(bytes) {
    let text = this.decoder.decode(bytes, { stream: true });
    if (text === "") return;
    if (this.afterCR && text[0] === "\n") text = text.slice(1);
    this.afterCR = text === "" ? false : text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/); // not any other line separator: they may stand in a JSON string
    lines[0] = this.rest + lines[0];
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      const [data, name] = [this.data.join("\n"), this.name];
      [this.data, this.name] = [[], ""];
      if (data !== "") this.onEvent(data, name);
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.name = value;
  }
}

/** What the events of one answer add up to. */
export class Accumulator {
  constructor() {
    this.choices = new Map();
    this.done = false;
    this.error = null;
    this.usage = null;
    this.events = new EventReader((data, name) => this.event(data, name));
  }

  feed(bytes) {
    this.events.feed(bytes);
  }

  event(data, name) {
    if (this.done || this.error) return;
    if (data.trim() === "[DONE]") {
      this.done = true;
      return;
    }
    let chunk;
    try {
      chunk = JSON.parse(data);
    } catch {
      return; // what cannot be decoded adds nothing and ends nothing
    }
    for (const [position, choice] of (chunk.choices ?? []).entries()) this.choice(choice, position);
    const usage = chunk.usage;
    if (usage) this.usage = { input_tokens: usage.prompt_tokens ?? null, output_tokens: usage.completion_tokens ?? null };
    const error = chunk.error ?? (name === "error" ? chunk : null);
    if (error) this.error = error;
  }

  choice(choice, position) {
    const number = choice.index ?? position;
    if (!this.choices.has(number)) {
      this.choices.set(number, { text: "", reasoning: "", refusal: null, calls: [], byIndex: new Map(), finish: null });
    }
    const state = this.choices.get(number);
    const delta = choice.delta ?? {};
    for (const part of typeof delta.content === "string" ? [delta.content] : (delta.content ?? [])) {
      if (part.type === "thinking") state.reasoning += part.thinking.map((inner) => inner.text).join("");
      else state.text += part.text ?? part;
    }
    state.reasoning += delta.reasoning_content ?? delta.reasoning ?? "";
    if (delta.refusal) state.refusal = (state.refusal ?? "") + delta.refusal;
    for (const fragment of delta.tool_calls ?? []) this.fragment(state, fragment);
    if (delta.function_call) this.fragment(state, { index: "legacy", function: delta.function_call });
    if (choice.finish_reason) state.finish = choice.finish_reason;
  }

  fragment(state, fragment) {
    const call = this.callOf(state, fragment);
    const { name, arguments: piece } = fragment.function ?? {};
    call.id ||= fragment.id ?? ""; // set once, and only from a value that is not empty
    if (name && name !== call.name) call.name += name; // the whole name once more is a repeat
    if (piece) call.pieces.push(typeof piece === "string" ? piece : JSON.stringify(piece));
  }

  /** The call a fragment belongs to: by index; without one, the last. A new id with a name opens another call. */
  callOf(state, fragment) {
    const known = fragment.index == null ? state.calls.at(-1) : state.byIndex.get(fragment.index);
    const another = known?.id && fragment.id && fragment.id !== known.id && fragment.function?.name;
    return known && !another ? known : this.open(state, fragment);
  }

  open(state, fragment) {
    const call = { index: fragment.index, id: "", name: "", pieces: [] };
    state.calls.push(call);
    if (fragment.index != null) state.byIndex.set(fragment.index, call);
    return call;
  }

  /** The answer as message JSON. Throws if the stream failed or was cut. */
  message() {
    if (this.error) throw new Error(this.error.message ?? JSON.stringify(this.error));
    const choices = [...this.choices.entries()].sort(([a], [b]) => a - b).map(([number, state]) => view(number, state));
    const finished = choices.some((choice) => choice.finish_reason !== null);
    if (!this.done && !finished) throw new Error("the stream ended before the answer did");
    const first = choices.find((choice) => choice.choice === 0) ?? view(0, null);
    return { ...first, terminal: this.done ? "done" : "finish", usage: this.usage, error: null, choices };
  }
}

function view(choice, state) {
  const calls = (state?.calls ?? []).sort((a, b) => (a.index ?? 0) - (b.index ?? 0) || 0);
  const raw = state?.finish ?? null;
  const reason = FINISH[raw] ?? raw;
  return {
    choice,
    text: state?.text ?? "",
    reasoning: state?.reasoning ?? "",
    refusal: state?.refusal ?? null,
    tool_calls: calls.map(({ id, name, pieces }, index) => ({ index, id, name, arguments: joined(pieces) })),
    finish_reason: reason === null || NORMAL.includes(reason) ? reason : "other",
    finish_raw: raw,
  };
}

/** The pieces joined once; a last piece that repeats all before it, which was whole, is no piece. */
function joined(pieces) {
  const before = pieces.slice(0, -1).join("");
  return before !== "" && before === pieces.at(-1) && isJSON(before) ? before : pieces.join("");
}

function isJSON(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The target: the stream on stdin, the message on stdout; exit 1 and a reason on stderr if it is to be rejected. */
export function main(accumulator) {
  const input = readFileSync(0);
  try {
    if (process.argv.includes("--jsonl")) {
      for (const line of input.toString().split("\n")) {
        if (line) accumulator.feed(Buffer.from(JSON.parse(line), "base64"));
      }
    } else {
      accumulator.feed(input);
    }
    process.stdout.write(JSON.stringify(accumulator.message()) + "\n");
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(new Accumulator());
