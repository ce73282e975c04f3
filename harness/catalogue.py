"""The rule catalogue: what each code says, how bad it is, what it does to a client, and the remedy. Data only.

Codes are stable: people write them in acceptances. A code is a note's code (side "note") or the path of a fact that both
streams have (side "diff"); "both" is a note in lint and a difference in compare; "lint" is never a difference; "run" is
judged by gate alone.
Source: RULES, sections 3 and 4. `{detail}`, `{baseline}` and `{candidate}` are filled in where a message has them.
"""

from __future__ import annotations

from harness.catalogue_dialects import ANTHROPIC, COHERE, COMPLETIONS, EXPLAINS_DIALECTS, GEMINI, OLLAMA
from harness.catalogue_responses import EXPLAINS_RESPONSES, RESPONSES
from harness.catalogue_run import PARITY, SECRETS, TIMING
from harness.rule import C, F, N, Rule

__all__ = ["CATALOGUE", "EXPLAINS", "C", "F", "N", "Rule"]

FRAMING = [
    Rule("sse.comments", C, "note", "comment lines keep the connection alive; a line splitter that takes every line for "
         "data trips over them", "read the stream with a real SSE parser"),
    Rule("sse.line-endings", C, "note", "lines end in {detail}, which the SSE standard allows; a splitter on LF LF sees "
         "one endless event", "read the stream with a real SSE parser"),
    Rule("sse.data-space", C, "note", "no space after `data:`, which the standard makes optional; a reader that cuts off "
         "six characters loses the first one", "read the stream with a real SSE parser"),
    Rule("sse.multi-line-data", C, "note", "one payload lies over several data lines; a reader that decodes each line "
         "alone gets broken JSON", "read the stream with a real SSE parser"),
    Rule("sse.long-line", C, "note", "a line is longer than 64 KiB; readers with a fixed line buffer stop there",
         "raise the reader's line limit"),
    Rule("sse.id-field", C, "note", "events carry id or retry fields, which the standard allows; a reader that knows data "
         "lines only trips over them", "read the stream with a real SSE parser"),
    Rule("sse.unknown-field", C, "note", "there are lines with fields the standard tells readers to ignore",
         "read the stream with a real SSE parser"),
    Rule("sse.data-swallowed", F, "note", "noise without a line end stands before `data:`, which makes the line an unknown "
         "field: every reader ignores it, and its payload ({detail}) is lost", "have the server, or what stands in front "
         "of it, write whole lines only"),
    Rule("sse.event-names", C, "diff", "events have got or lost their `event:` lines ({baseline} became {candidate}); "
         "readers that switch on the name take another path", "read the payload, not the event name", "sse.event-names"),
    Rule("http.content-encoding", C, "note", "the body came compressed ({detail}); a raw reader sees bytes it cannot use",
         "decode the body, or ask for identity"),
    Rule("sse.bom", N, "note", "the stream opens with a byte order mark; official readers lose the first event",
         "have the server drop it"),
    Rule("sse.empty-data", N, "note", "events without data are sent as heartbeat; official readers pass the empty text to "
         "their JSON parser and raise", "have the server send comments instead"),
    Rule("sse.control-fields", N, "note", "blocks hold only id, retry or event fields; a reader that dispatches them "
         "parses an empty payload and raises", "have the server leave such blocks out"),
    Rule("sse.event-name-missing", N, "note", "there are no `event:` lines; official readers that switch on the name "
         "yield nothing", "have the server send the event name"),
    Rule("sse.event-name-differs", N, "note", "`event:` and the payload's type disagree ({detail}); two readers take two "
         "paths", "have the server make them equal"),
    Rule("sse.last-event-unterminated", F, "note", "the last event lacks its blank line; every standard reader discards "
         "it and the answer ends early", "have the server end each event with a blank line"),
    Rule("end.marker-unterminated", N, "note", "the end marker lacks its blank line and is discarded; a UI that waits "
         "for it is saved only by the connection's end", "have the server end each event with a blank line"),
    Rule("sse.events-glued", F, "note", "there are no blank lines between events; official readers join the payloads "
         "and raise", "have the server end each event with a blank line"),
    Rule("sse.invalid-utf8", F, "note", "a character was cut into two payloads, or is no UTF-8; it is lost",
         "have the server hold back partial characters"),
    Rule("sse.data-not-json", F, "note", "an event is not JSON ({detail}); official readers raise in mid-answer",
         "have the server send nothing but JSON as data"),
    Rule("sse.json-constant", N, "note", "an event holds NaN or Infinity, which is no JSON; strict parsers raise on it",
         "have the server send null"),
    Rule("sse.data-not-object", F, "note", "an event is a bare JSON value ({detail}); readers that look for members raise",
         "have the server send JSON objects"),
    Rule("http.media-type", N, "note", "the content type is {detail}; strict readers refuse the stream",
         "have the server say text/event-stream (Ollama: application/x-ndjson)"),
    Rule("http.rejected", F, "diff", "the candidate refuses with status {candidate} what the baseline accepts: it lacks a "
         "parameter or feature the application uses", "drop it from the request, or do not cut over", "http.status"),
    Rule("stream.empty", F, "note", "status 200 and nothing in it: a silent empty answer",
         "check that streaming is on for this model, and that no proxy swallows it"),
    Rule("stream.not-a-stream", F, "note", "status 200 with a body that is no event stream ({detail}): a streaming "
         "client sees an empty answer", "check that streaming is on for this model, and that no proxy swallows it"),
    Rule("stream.no-content", F, "note", "the stream ends well but holds no text, call, refusal or error: a silent "
         "empty answer", "look for an error that was filtered out upstream"),
    Rule("stream.partial-event", N, "note", "the body ends inside an event ({detail}); what was in it is lost",
         "treat the answer as cut and retry"),
    Rule("stream.stalled", F, "note", "the stream went silent before its end: half an answer looks whole, or the client "
         "waits for ever", "set a timeout per event, retry, and treat the answer as failed"),
    Rule("stream.cut", F, "note", "the connection ended without finish reason and end marker: half an answer looks whole",
         "retry, and treat the answer as failed"),
    Rule("stream.restarted", F, "note", "the answer begins anew in mid-stream ({detail}): a retry forgot what it had sent, "
         "and text and calls come twice", "have whatever retries drop what came before, or retry before the first byte"),
    Rule("timing.one-burst", N, "note", "everything arrived at once after {detail}: a proxy buffers, and users stare at "
         "nothing", "send X-Accel-Buffering: no, or switch the proxy's buffering off"),
]  # fmt: skip

ENDING = [
    Rule("end.marker-missing", F, "note", "{detail} never came: a UI that waits for it shows a spinner that never stops",
         "have the server send it, or stop at the finish reason"),
    Rule("end.marker-repeated", N, "note", "the end marker came twice; a reader that goes on sees a ghost",
         "stop at the first end marker"),
    Rule("end.data-after-marker", N, "note", "something follows the end ({detail}); a reader that goes on sees a ghost",
         "stop at the end marker"),
    Rule("end.marker-foreign", N, "note", "chat's [DONE] stands in a stream of another dialect; some readers parse it as "
         "JSON and raise", "have the server drop it"),
    Rule("end.marker-after-error", N, "diff", "after an error the end marker is {candidate} where the baseline has "
         "{baseline}; a UI that waits for it spins for ever", "stop at the error", "end.marker-after-error"),
    Rule("error.data-after", C, "note", "data follows the error ({detail}); readers that raised are gone by then",
         "stop at the error"),
    Rule("finish.missing", F, "note", "no finish reason came{detail}: an agent loop that waits for it never exits",
         "have the server send it"),
    Rule("finish.unknown-value", N, "note", "the finish reason {detail} is in no documentation of this dialect; it falls "
         "through every branch", "map it in the client, or have the server send a documented one"),
    Rule("finish.stop-with-calls", N, "note", "calls came but the finish reason says {detail}: a loop that looks at the "
         "reason never runs them", "look at the calls, not at the reason"),
    Rule("finish.differs", N, "diff", "the finish reason is {candidate} where the baseline says {baseline}; branches on "
         "the reason go elsewhere", "branch on calls present, and map both reasons", "finish.value"),
    Rule("finish.calls-without-call", F, "note", "the finish reason says {detail} but no call came: the loop waits for a "
         "result nobody can give", "treat it as a failed answer, and check the server's tool parser"),
    Rule("finish.repeated", N, "note", "one choice has several finish reasons ({detail}); joined they match no branch, and "
         "readers that stop at the first lose what follows", "take the last one, and read on to the end marker"),
    Rule("finish.empty-string", N, "note", 'finish_reason is "" before the end; a reader that tests for null stops at '
         "the first chunk", "treat an empty reason as none"),
    Rule("finish.with-content", N, "note", "the chunk with the finish reason also holds text or arguments; readers that "
         "stop at the reason lose the last words", "read the delta before looking at the reason"),
    Rule("finish.content-after", N, "note", "text or arguments come after the finish reason; readers that stop there "
         "lose them", "read on to the end marker"),
    Rule("finish.key-absent", C, "note", "chunks leave finish_reason out where null is documented; only strict schemas "
         "mind", "make the member optional in the client"),
    Rule("finish.length-hidden", F, "diff", "the baseline says that the answer was cut by the limit; the candidate used up "
         "the same limit and says that it is whole", "compare the token count with the limit", "limit"),
    Rule("stop.text-included", N, "note", "the stop string is in the text; parsers that expect it gone stumble",
         "cut the text at the stop string"),
    Rule("error.in-stream", F, "note", "status 200, then an error ({detail}): without a branch of its own the user gets "
         "a silent empty or half answer", "handle an error object inside the stream"),
    Rule("error.finish-reason", F, "note", "the finish reason is a failure ({detail}); a reader that maps it to stop hides "
         "it", "treat this reason as an error"),
    Rule("error.swallowed", F, "diff", "the baseline reports the failure, the candidate ends as if all were well: the "
         "failure becomes a silent empty answer", "do not cut over before the server reports it", "result"),
    Rule("error.delivery", F, "diff", "the error comes by {candidate} where the baseline sends it by {baseline}; the "
         "handler for it is never reached", "handle both carriers", "error.delivery"),
    Rule("error.envelope", F, "diff", "the error's envelope is {candidate} where the baseline has {baseline}; retry "
         "wrappers do not match it", "re-point the retry wrapper", "error.envelope"),
    Rule("error.fields", N, "diff", "the error has lost {lost}; what is keyed on that falls through",
         "key on the fields both have", "error.fields"),
    Rule("error.code-type", N, "diff", "the error's code is a {candidate} where the baseline sends a {baseline}; an exact "
         "comparison never matches", "compare codes as text", "error.code-type"),
]  # fmt: skip

CHAT = [
    Rule("chunk.choices-missing", F, "note", "a chunk has no choices; official accumulators raise",
         "have the server send an empty list"),
    Rule("chunk.choices-null", F, "note", "a chunk's choices are null; official accumulators raise",
         "have the server send an empty list"),
    Rule("chunk.choices-wrong-type", F, "note", "a chunk's choices are no list ({detail}); readers raise or lose them",
         "have the server send a list"),
    Rule("chunk.choices-empty", N, "note", "a chunk has an empty list of choices and no usage; `choices[0]` raises",
         "test for an empty list"),
    Rule("chunk.choice-not-object", F, "note", "an entry of choices is no object; readers raise",
         "have the server send objects"),
    Rule("chunk.choice-index-missing", N, "note", "a choice has no index; with several choices their texts mix",
         "have the server send it"),
    Rule("chunk.delta-null", F, "note", "a delta is null; an official accumulator raises on it",
         "have the server send an empty object"),
    Rule("chunk.delta-wrong-type", F, "note", "a delta is no object ({detail}); readers raise or lose what it says",
         "have the server send objects"),
    Rule("chunk.delta-missing", N, "note", "a choice has no delta; readers that reach for it raise",
         "test for the member"),
    Rule("chunk.message", F, "note", "chunks carry a growing message beside or in place of the delta: text comes out "
         "empty or twice", "ask the server for plain deltas"),
    Rule("chunk.object", F, "note", "no chunk says {detail}; a strict accumulator ends up with nothing",
         "have the server send it"),
    Rule("chunk.object-partly", N, "note", "not every chunk says {detail}; a strict accumulator drops the "
         "others", "have the server send it on every chunk"),
    Rule("chunk.id-changes", F, "note", "the response id changes in mid-answer ({detail}); accumulators that check it "
         "drop the rest", "have the server keep one id per response"),
    Rule("chunk.id-missing", N, "note", "chunks have no id, or an empty one; what is logged or keyed by it is lost",
         "do not key on the chunk id"),
    Rule("chunk.model-changes", C, "note", "the model's name changes over the chunks ({detail})",
         "take the first one"),
    Rule("chunk.created-form", N, "note", "created is {detail} where whole seconds are documented; typed readers reject "
         "the chunk, or the date is wrong", "do not read created, or have the server send whole seconds"),
    Rule("chunk.first-content", C, "diff", "the first delta's content is {candidate} where the baseline has {baseline}; "
         "only a reader that tests its form minds", "treat null, absent and empty alike", "text.first"),
    Rule("choice.shared-chunk", C, "diff", "two choices share one chunk on one side only; readers of choices[0] see half",
         "iterate over choices", "choice.shared-chunk"),
    Rule("choice.missing", F, "note", "fewer choices came than were asked for ({detail}); code that picks among them "
         "fails", "send several requests, or do not cut over"),
    Rule("role.missing", F, "note", "no delta has a role; one official accumulator refuses to finish the message",
         "have the server send it first"),
    Rule("role.repeated", N, "note", "the role is sent with several deltas; accumulators that join strings get "
         "assistantassistant", "set the role once"),
    Rule("role.null", C, "note", "the role is null or empty later on", "set the role once, from a non-empty value"),
    Rule("text.not-a-string", F, "note", "content is no string ({detail}): text is lost, or shown as [object Object]",
         "read content as parts, or have the server send strings"),
    Rule("text.cumulative", F, "note", "each delta repeats all text before it: the text comes out many times over",
         "have the server send deltas; take the last snapshot by hand"),
    Rule("text.split-surrogate", F, "note", "half a character stands at the edge of a delta; languages with UTF-8 "
         "strings lose both halves", "have the server hold back partial characters"),
    Rule("reasoning.field", N, "both", "thinking comes under {candidate} where the reader expects {baseline}: it vanishes",
         "read every name in use", "reasoning.field"),
    Rule("reasoning.field-extension", C, "note", "thinking comes under {detail}, an extension that OpenAI's schema does "
         "not have", "read it where thinking is wanted"),
    Rule("reasoning.in-text", N, "note", "think tags stand in the answer: users see the model think",
         "switch on the server's reasoning parser"),
    Rule("reasoning.signature-missing", F, "diff", "thinking has lost its signature: the next turn is rejected",
         "do not send thinking back, or do not cut over", "reasoning.signature"),
]  # fmt: skip

TOOLS = [
    Rule("tool.index-missing", F, "note", "a call has no usable index ({detail}); official helpers raise or lose the call",
         "have the server send it"),
    Rule("tool.index-reused", F, "note", "several calls share one index ({detail}); a reader keyed by index glues their "
         "arguments together", "have the server number its calls; start a new call at a new id with a name"),
    Rule("tool.index-sparse", F, "note", "indexes do not count 0, 1, 2 ({detail}); used as a position they raise",
         "have the server number calls from 0; use the index as a key"),
    Rule("tool.index-twice-in-delta", N, "note", "one delta holds two entries of one call ({detail}); readers that take "
         "one entry a delta lose a piece", "merge every entry by index"),
    Rule("tool.list-empty", N, "note", "tool_calls is {detail} in a delta; readers that take its presence for a call, or "
         "iterate over it, fail", "test for a non-empty list"),
    Rule("tool.list-wrong-type", F, "note", "tool_calls is no list ({detail}); readers raise or lose the call",
         "have the server send a list"),
    Rule("tool.id-missing", N, "note", "a call has no id: its result cannot be tied to it",
         'use "" on both sides; with several calls do not cut over'),
    Rule("tool.id-changes", F, "note", "the id changes within one call ({detail}); results are tied to an id the server "
         "does not know", "keep the first id"),
    Rule("tool.id-duplicate", F, "note", "two calls have the same id ({detail}); their results cannot be told apart",
         "have the server send distinct ids"),
    Rule("tool.id-on-continuation", N, "note", "the id is {detail} on later fragments: the overwrite trap, or doubled ids",
         "set the id once, from a non-empty value"),
    Rule("tool.name-missing", F, "note", "a call has no name: nothing can be run", "have the server send it"),
    Rule("tool.name-repeated", F, "note", "the name is sent again with later fragments ({detail}): joined it comes out "
         "doubled, an unknown tool", "set the name once"),
    Rule("tool.name-split", F, "note", "the name comes in pieces ({detail}): readers that set it once cut it",
         "have the server send it whole"),
    Rule("tool.name-late", N, "note", "the name comes after the first fragment; readers that need it first fail",
         "wait for the end of the call"),
    Rule("tool.name-on-continuation", N, "note", "the name is {detail} on later fragments: an overwriting reader calls "
         "unknown tool ''", "set the name once, from a non-empty value"),
    Rule("tool.type-null", F, "note", "the call's type is {detail} in a fragment; one official accumulator raises",
         "have the server leave it out"),
    Rule("tool.type-missing", N, "note", "the call's type is never sent; typed readers reject it", "assume function"),
    Rule("tool.type-repeated", C, "note", "the call's type is sent again with later fragments; joined it comes out "
         "doubled", "set it once"),
    Rule("tool.custom-type", F, "note", "a free-form call stands in a chat stream; official accumulators know functions "
         "only", "handle custom calls, or offer no custom tools"),
    Rule("tool.legacy-function-call", N, "note", "the call comes as the deprecated function_call, without an id; readers "
         "of tool_calls see none", "read function_call too"),
    Rule("tool.arguments-object", F, "note", "arguments are {detail}, not a string: joined or parsed they are lost, and "
         "the tool is called with {{}}", "have the server send JSON text"),
    Rule("tool.arguments-sent-again", F, "note", "more arguments follow the complete JSON ({detail}): joined, it no longer "
         "parses", "have the server send them once"),
    Rule("tool.arguments-not-json", F, "note", "the arguments do not parse (... {detail}): the tool is called with {{}}, "
         "or the client crashes", "repair them, or have the server constrain the model"),
    Rule("tool.arguments-empty", N, "note", 'the arguments are "" where OpenAI sends {{}}; a parser raises on it',
         "treat empty arguments as {}"),
    Rule("tool.arguments-null", N, "note", "arguments are null in a fragment; joined they raise or read nullnull",
         "skip null"),
    Rule("tool.arguments-key-absent", C, "note", "the fragment that opens a call has no arguments; fine when joined at "
         "the end", "treat an absent member as nothing"),
    Rule("tool.whole-call", C, "note", "a call comes whole in one fragment; fine when keyed by index",
         "key by index and join at the end"),
    Rule("tool.arguments-split", C, "diff", "arguments come in {candidate} where the baseline sends {baseline}; fine when "
         "joined at the end", "key by index and join at the end", "tool.arguments-split"),
    Rule("tool.argument-types", C, "diff", "an argument has another JSON type than on the baseline",
         "validate arguments by their schema", "behaviour.tools"),
    Rule("tool.forced-call-missing", F, "diff", "the request demands a call and none came: the loop has nothing to run",
         "do not cut over", "behaviour.calls"),
    Rule("tool.markup-in-text", F, "note", "the call is markup in the text: the client sees no call",
         "switch on the server's tool parser"),
    Rule("structured.not-json", F, "note", "JSON was asked for, the answer is finished and does not parse",
         "do not cut over, or validate and retry"),
    Rule("logprobs.missing", F, "both", "log probabilities were due and did not come; nothing can make them up",
         "do not cut over what depends on them", "logprobs"),
]  # fmt: skip

USAGE = [
    Rule("usage.missing", N, "note", "token counts were due and did not come: the cost ledger reads zero",
         "count tokens locally"),
    Rule("usage.position", N, "both", "usage stands on {candidate} where the reader expects {baseline}; dashboards read "
         "one place", "read usage wherever it stands", "usage.position"),
    Rule("usage.repeated", N, "both", "usage is sent as a running total; readers that add it up bill many times",
         "take the last value", "usage.repeated"),
    Rule("usage.in-choice", N, "note", "usage stands inside a choice; readers of the top level see none",
         "read usage wherever it stands"),
    Rule("usage.zero", N, "note", "all token counts are 0: the cost ledger reads zero", "count tokens locally"),
    Rule("usage.counters", N, "diff", "usage has lost {lost}; ledgers that read it see zero", "count tokens locally",
         "usage.counters"),
    Rule("usage.details", C, "diff", "usage has lost its detail {lost}", "do without it", "usage.details"),
    Rule("usage.unasked", C, "note", "usage is sent though it was not asked for", "ignore it"),
    Rule("usage.added", C, "diff", "usage is sent where the baseline has none", "ignore it", "usage.present"),
]  # fmt: skip

# cause -> what it explains (RULES, section 4). Patterns are shell globs. A cause explains also when it is itself
# explained, or shared by both sides.
EXPLAINS: dict[str, str] = {
    "stream.empty": "*",
    "stream.not-a-stream": "*",
    "stream.cut": "end.marker-* finish.missing finish.with-content usage.missing logprobs.missing choice.missing "
    "tool.arguments-not-json tool.arguments-empty sse.last-event-unterminated stream.partial-event role.missing "
    "responses.*-not-* anthropic.*-not-* anthropic.block-not-stopped",
    "error.in-stream": "stream.* end.* finish.* usage.missing usage.zero tool.arguments-* tool.name-missing role.missing "
    "chunk.choices-missing chunk.object* chunk.id* sse.event-name-missing sse.last-event-unterminated responses.* "
    "anthropic.* error.finish-reason error.data-after sse.unknown-field",
    "stream.restarted": "tool.index-reused tool.id-duplicate tool.name-repeated tool.arguments-* responses.index-shared "
    "responses.done-differs responses.final-differs responses.sequence-gaps responses.close-order responses.*-not-* "
    "responses.item-content-missing cohere.not-ended cohere.calls-overlap usage.repeated usage.position",
    "stream.no-content": "finish.missing role.missing usage.missing end.marker-missing chunk.* tool.*",
    "error.finish-reason": "finish.unknown-value tool.arguments-* stream.no-content",
    "finish.missing": "usage.position usage.repeated",
    "finish.repeated": "usage.position usage.repeated finish.with-content finish.content-after finish.stop-with-calls",
    "finish.empty-string": "usage.position usage.repeated",
    "chunk.choices-missing": "usage.position usage.repeated",
    "finish.calls-without-call": "stream.no-content finish.unknown-value",
    "sse.events-glued": "end.marker-* finish.missing finish.with-content usage.missing sse.last-event-unterminated "
    "sse.multi-line-data stream.partial-event",
    "sse.data-swallowed": "sse.unknown-field end.marker-missing finish.missing usage.missing role.missing tool.* "
    "logprobs.missing choice.missing responses.*-not-* responses.done-differs anthropic.*-not-* "
    "anthropic.block-not-stopped cohere.not-ended",
    "sse.last-event-unterminated": "end.marker-* finish.missing finish.with-content usage.missing sse.multi-line-data",
    "end.marker-repeated": "end.data-after-marker",
    "end.marker-foreign": "end.data-after-marker sse.data-not-json",
    "end.marker-missing": "stream.partial-event",
    "chunk.object": "chunk.object-partly chunk.id-missing chunk.model-changes",
    "chunk.choices-empty": "chunk.object-partly chunk.id-missing chunk.model-changes",
    "chunk.delta-missing": "chunk.object-partly chunk.id-missing chunk.model-changes",
    "chunk.id-changes": "chunk.model-changes",
    "chunk.message": "finish.with-content",
    "sse.data-not-object": "chunk.choices-null",
    "tool.index-missing": "tool.index-sparse tool.index-reused tool.id-on-continuation",
    "tool.index-reused": "tool.id-changes tool.index-twice-in-delta",
    "tool.id-changes": "tool.id-on-continuation",
    "tool.type-null": "tool.id-on-continuation tool.name-on-continuation",
    "tool.name-repeated": "tool.id-on-continuation",
    "tool.name-late": "tool.id-on-continuation",
    "tool.id-on-continuation": "tool.name-on-continuation tool.type-repeated",
    "tool.name-split": "tool.name-on-continuation",
    "tool.legacy-function-call": "tool.id-missing tool.type-missing",
    "tool.custom-type": "tool.id-missing tool.type-missing",
    "tool.arguments-sent-again": "tool.arguments-not-json",
    "usage.in-choice": "usage.missing usage.position",
    "usage.repeated": "usage.position",
    **EXPLAINS_RESPONSES,
}

for _cause, _more in EXPLAINS_DIALECTS.items():
    EXPLAINS[_cause] = f"{EXPLAINS.get(_cause, '')} {_more}".strip()
EXPLAINS["stream.stalled"] = EXPLAINS["stream.cut"]  # both ended too early, the one with the connection open

CATALOGUE: dict[str, Rule] = {
    rule.code: rule
    for group in (
        FRAMING, ENDING, CHAT, TOOLS, USAGE, RESPONSES, ANTHROPIC, GEMINI, OLLAMA, COHERE, COMPLETIONS, TIMING, PARITY,
        SECRETS,
    )
    for rule in group
}  # fmt: skip
