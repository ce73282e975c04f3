// node peers.mjs FILE FAMILY RUNS: CPU seconds (user and system, the median) of eventsource-parser and JSON.parse,
// folded by hand, over the file in pieces of 4096 bytes. Prints {"seconds": ..., "characters": of text and arguments}.
import { readFileSync } from "node:fs";
import { createParser } from "eventsource-parser";

const [file, family, runs] = process.argv.slice(2);
const body = readFileSync(file);

function read() {
  let text = "";
  const calls = new Map();
  const pass = (index, piece) => calls.set(index, (calls.get(index) ?? "") + piece);
  const take = (event) => {
    if (event.data === "[DONE]") return;
    const value = JSON.parse(event.data);
    if (family.startsWith("chat")) {
      for (const { delta } of value.choices) {
        if (delta.content) text += delta.content;
        for (const call of delta.tool_calls ?? []) pass(call.index, call.function.arguments);
      }
    } else if (value.type === "response.output_text.delta") text += value.delta;
    else if (value.type === "response.function_call_arguments.delta") pass(value.output_index, value.delta);
    else if (value.type === "content_block_delta") {
      if (value.delta.type === "text_delta") text += value.delta.text;
      else pass(value.index, value.delta.partial_json);
    }
  };
  const parser = createParser({ onEvent: take });
  const decoder = new TextDecoder();
  for (let at = 0; at < body.length; at += 4096) parser.feed(decoder.decode(body.subarray(at, at + 4096), { stream: true }));
  return [text, ...calls.values()].reduce((sum, piece) => sum + [...piece].length, 0);
}

let characters = read();
const seconds = [];
for (let run = 0; run < Number(runs); run++) {
  const before = process.cpuUsage();
  characters = read();
  const { user, system } = process.cpuUsage(before);
  seconds.push((user + system) / 1e6);
}
seconds.sort((one, other) => one - other);
console.log(JSON.stringify({ seconds: seconds[seconds.length >> 1], characters }));
