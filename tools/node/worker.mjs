// Drives SDKs for Node, for harness/adapters/node.py: a JSON object a line on stdin, {client, dialect, url}, and one a
// line on stdout, {value} with the message, {rejected} with what the SDK raised, or {failed}. Ends where stdin ends.

import { createInterface } from "node:readline";

const MODEL = "replayed";
const PROMPT = "Say hello.";
const OPTIONS = { apiKey: "none", maxRetries: 0 };

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const numbered = (calls) => calls.map((call, index) => ({ index, ...call }));
const counts = (usage, input, output) =>
  usage ? { input_tokens: usage[input] ?? null, output_tokens: usage[output] ?? null } : null;

async function openaiChat(url) {
  const { OpenAI } = await import("openai");
  const client = new OpenAI({ ...OPTIONS, baseURL: url });
  const stream = client.chat.completions.stream({ model: MODEL, messages: [{ role: "user", content: PROMPT }] });
  const completion = await stream.finalChatCompletion();
  const choices = completion.choices.map(({ index, message, finish_reason }) => {
    const calls = (message.tool_calls ?? []).map((call) => ({
      id: call.id,
      name: (call.custom ?? call.function)?.name,
      arguments: call.custom ? call.custom.input : call.function?.arguments,
    }));
    if (message.function_call) calls.push({ id: null, ...message.function_call });
    return {
      choice: index,
      text: message.content,
      refusal: message.refusal,
      reasoning: message.reasoning_content ?? message.reasoning,
      tool_calls: numbered(calls),
      finish_raw: finish_reason,
    };
  });
  const usage = counts(completion.usage, "prompt_tokens", "completion_tokens");
  return { ...(choices.find((choice) => choice.choice === 0) ?? { text: "" }), choices, usage };
}

async function openaiResponses(url) {
  const { OpenAI } = await import("openai");
  const client = new OpenAI({ ...OPTIONS, baseURL: url });
  const response = await client.responses.stream({ model: MODEL, input: PROMPT }).finalResponse();
  const message = { text: "", refusal: "", reasoning: "" };
  const calls = [];
  for (const item of response.output ?? []) {
    if (item.type === "message") {
      for (const part of item.content ?? []) {
        if (part.type === "refusal") message.refusal += part.refusal;
        else message.text += part.text;
      }
    } else if (item.type === "reasoning") {
      for (const part of [...(item.summary ?? []), ...(item.content ?? [])]) message.reasoning += part.text;
    } else if (item.type === "function_call") {
      calls.push({ id: item.call_id, name: item.name, arguments: item.arguments });
    } else if (item.type === "custom_tool_call") {
      calls.push({ id: item.call_id, name: item.name, arguments: item.input });
    }
  }
  return {
    ...message,
    tool_calls: numbered(calls),
    finish_raw: response.incomplete_details?.reason ?? response.status,
    usage: counts(response.usage, "input_tokens", "output_tokens"),
  };
}

async function aiSdk(url) {
  const { streamText } = await import("ai");
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const provider = createOpenAICompatible({ name: "replay", apiKey: OPTIONS.apiKey, baseURL: url });
  const result = streamText({
    model: provider.chatModel(MODEL),
    prompt: PROMPT,
    maxRetries: OPTIONS.maxRetries,
    onError() {}, // errors are parts of the stream; the default writes them to the console
  });
  const message = { text: "", reasoning: "" };
  const calls = [];
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") message.text += part.text;
    else if (part.type === "reasoning-delta") message.reasoning += part.text;
    // No tools are declared, so that each call comes as one of an unknown tool: its input is parsed where it parses.
    else if (part.type === "tool-call")
      calls.push({ id: part.toolCallId, name: part.toolName, arguments: text(part.input) });
    else if (part.type === "finish") {
      message.finish_raw = part.rawFinishReason ?? null;
      message.usage = counts(part.totalUsage, "inputTokens", "outputTokens");
    }
  }
  return { ...message, tool_calls: numbered(calls) };
}

const CLIENTS = {
  "openai-node": { chat: openaiChat, responses: openaiResponses },
  "ai-sdk": { chat: aiSdk },
};

function described(error) {
  const said = String(error?.message ?? error).split(/\s+/).join(" ").trim();
  const name = error?.name === "Error" ? error.constructor?.name : error?.name;
  return `${name ?? "Error"}: ${said}`;
}

// stdout holds answers and nothing else. A promise that an SDK leaves behind is no answer either.
console.log = console.info = console.warn = console.error;
globalThis.AI_SDK_LOG_WARNINGS = false;
process.on("unhandledRejection", () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const { client, dialect, url } = JSON.parse(line);
  const drive = CLIENTS[client]?.[dialect];
  let said;
  if (drive === undefined) said = { failed: `no client ${client} for ${dialect}` };
  else {
    try {
      said = { value: await drive(url) };
    } catch (error) {
      said = { rejected: described(error) };
    }
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
