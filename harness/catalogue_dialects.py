"""The part of the catalogue that speaks of Anthropic, Gemini, Ollama, Cohere and Completions, and what its rules explain.

Data only. Source: RULES, sections 3 and 4; what official helpers raise on was tried on them (see harness/facts).
"""

from __future__ import annotations

from harness.rule import C, F, N, Rule

ANTHROPIC = [
    Rule("anthropic.start-missing", F, "note", "the stream does not begin with message_start ({detail}): official helpers "
         "raise, or lose what came before it", "have the server send it first"),
    Rule("anthropic.start-repeated", F, "note", "message_start comes twice: one official helper raises in mid-answer",
         "have the server send it once"),
    Rule("anthropic.type-missing", F, "note", "a payload has no type (event {detail}): official helpers read nothing out "
         "of it, and text or arguments are lost", "have the server send it in the payload too"),
    Rule("anthropic.message-members", N, "note", "{detail}, which is documented: typed readers raise, or read nothing",
         "have the server send it"),
    Rule("anthropic.block-index-gap", F, "note", "block indexes do not count 0, 1, 2 ({detail}): official helpers use "
         "them as positions and raise", "have the server number blocks from 0; use the index as a key"),
    Rule("anthropic.block-index-reused", F, "note", "two blocks have the same index ({detail}): readers keyed by it mix "
         "their text and arguments", "have the server number its blocks; open a new one at each block start"),
    Rule("anthropic.delta-wrong-block", F, "note", "an event belongs to no block, or to one of another kind ({detail}): "
         "official helpers raise or drop it", "have the server start the block first, and send what fits it"),
    Rule("anthropic.block-not-stopped", N, "note", "a block is not stopped in time ({detail}); readers that act when it "
         "stops never run the tool", "act at message_stop at the latest"),
    Rule("anthropic.blocks-overlap", N, "note", "a block starts before the one before it has stopped ({detail}); readers "
         "with one open block mix them", "keep blocks apart by their index"),
    Rule("anthropic.delta-after-stop", N, "note", "a block goes on after it was stopped ({detail}); readers that act when "
         "it stops miss the rest, or act twice", "act at message_stop, on what is there by then"),
    Rule("anthropic.input-in-start", N, "note", "the input stands in the block's start ({detail}) where {{}} is documented; "
         "readers of deltas call the tool with {{}}", "have the server send the input as deltas"),
    Rule("anthropic.input-missing", N, "note", "a call starts without its input ({detail}); readers that begin with the "
         "documented {{}} fail, and a call without arguments has none", "take an absent input for {}"),
    Rule("anthropic.text-in-start", N, "note", "text stands in the block's start ({detail}) where \"\" is documented; "
         "readers of deltas lose it", "begin with the text of the start"),
    Rule("anthropic.usage-start", N, "note", "message_start lacks its token counts ({detail}): input tokens read zero",
         "read usage wherever it stands, or count locally"),
    Rule("anthropic.usage-start-zero", N, "note", "message_start counts 0 input tokens: ledgers that read it there read "
         "zero", "read usage wherever it stands, the last value counts"),
    Rule("anthropic.usage-delta", N, "note", "message_delta does not count the output tokens: the ledger reads zero, or "
         "a reader that reaches for them raises", "count tokens locally"),
    Rule("anthropic.stop-sequence-reason", N, "note", "a stop sequence is named but the reason says otherwise ({detail}); "
         "readers of the reason do not know that it was hit", "look at stop_sequence too"),
    Rule("anthropic.stop-sequence-key", C, "note", "message_delta leaves stop_sequence out where null is documented; only "
         "strict schemas mind", "make the member optional in the client"),
    Rule("anthropic.unknown-event", C, "note", "there is an event, block or delta that nobody documents ({detail}); "
         "readers are told to ignore it", "ignore what you do not know"),
    Rule("anthropic.usage-in-blocks", C, "note", "events of blocks carry usage; readers are told to ignore what they do "
         "not know", "read usage from message_start and message_delta"),
    Rule("anthropic.ping", C, "diff", "ping events come where the baseline has none; readers are told to ignore them",
         "ignore them", "anthropic.ping"),
    Rule("usage.input-in-delta", C, "diff", "message_delta says the input tokens on one side only; the last value counts",
         "take the last value of each counter", "usage.input-in-delta"),
]  # fmt: skip

GEMINI = [
    Rule("gemini.arguments-string", F, "note", "a call's args are a string ({detail}), not an object: official readers "
         "raise, and the tool is not called", "have the server send an object"),
    Rule("gemini.list-wrong-type", F, "note", "a list is none ({detail}): official readers raise in mid-answer",
         "have the server send a list"),
    Rule("gemini.prompt-blocked", F, "lint", "the prompt was blocked ({detail}) and there is no candidate: "
         "`candidates[0]` raises", "look at promptFeedback first"),
]  # fmt: skip

OLLAMA = [
    Rule("ollama.arguments-string", F, "note", "a call's arguments are a string ({detail}), not an object: the official "
         "client raises, and the tool is not called", "have the server send an object"),
    Rule("ollama.message-members", F, "note", "{detail}, which is documented: the official client raises in mid-answer",
         "have the server send it"),
    Rule("ollama.call-in-done", N, "note", "a call stands in the line that says done; readers that stop there without "
         "looking never run it", "read the message before looking at done"),
    Rule("ollama.data-after-done", N, "note", "lines follow the one that says done ({detail}); readers stop there and "
         "miss them", "have the server send done last"),
]  # fmt: skip

COHERE = [
    Rule("cohere.start-missing", N, "note", "the stream does not begin with message-start ({detail}); readers that take "
         "id and role from it have none", "do without it, or have the server send it first"),
    Rule("cohere.type-missing", F, "note", "a payload has no type (event {detail}): the official SDK takes it for another "
         "event, and its text or arguments are lost", "have the server send it in the payload too"),
    Rule("cohere.calls-list", F, "note", "tool_calls is a list where one object is documented: the official SDK skips the "
         "start of the call", "have the server send the object"),
    Rule("cohere.not-open", N, "note", "something comes for a {detail} that was not started, or has ended; readers with "
         "one open part drop it or raise", "have the server start it first and end it last"),
    Rule("cohere.not-ended", N, "note", "a {detail} is never ended; readers that act on its end never run the tool or "
         "show the text as finished", "act at message-end at the latest"),
    Rule("cohere.calls-overlap", N, "note", "a call starts before the one before it has ended ({detail}); readers with "
         "one open call lose the first", "keep calls apart by their index"),
    Rule("cohere.unknown-event", C, "note", "there is an event that nobody documents ({detail}); readers are told to "
         "ignore it", "ignore what you do not know"),
]  # fmt: skip

# Where the other side's bytes for a note are: the fact that shows how the baseline does it.
COUNTERPART_DIALECTS: dict[str, str] = {
    "anthropic": "anthropic.block-index",
    "anthropic.start-missing": "anthropic.start",
    "anthropic.start-repeated": "anthropic.start",
    "anthropic.message-members": "anthropic.start",
    "anthropic.input-in-start": "anthropic.input",
    "anthropic.input-missing": "anthropic.input",
    "anthropic.usage-start": "usage.position.start",
    "anthropic.usage-start-zero": "usage.position.start",
    "anthropic.usage-delta": "usage.position.delta",
    "anthropic.usage-in-blocks": "usage.position.delta",
    "anthropic.stop-sequence-key": "anthropic.stop-sequence-key",
    "anthropic.stop-sequence-reason": "anthropic.stop-sequence-key",
    "gemini": "gemini.candidates",
    "gemini.arguments-string": "tool.arguments-type",
    "ollama": "finish.value",
    "ollama.arguments-string": "tool.arguments-type",
    "ollama.message-members": "ollama.form",
    "cohere": "cohere.start",
}

COMPLETIONS = [
    Rule("completions.logprobs-form", N, "note", "log probabilities come in another form than the documented lists "
         "({detail}); readers of tokens and token_logprobs find none", "read both forms"),
]  # fmt: skip

# cause -> what it explains, patterns as in catalogue.EXPLAINS (RULES, section 4).
EXPLAINS_DIALECTS: dict[str, str] = {
    "anthropic.start-missing": "anthropic.usage-* anthropic.message-members usage.*",
    "anthropic.start-repeated": "anthropic.block-index-reused",
    "anthropic.message-members": "usage.counters",
    "anthropic.type-missing": "sse.event-name-missing",
    "anthropic.delta-wrong-block": "anthropic.delta-after-stop anthropic.block-index-* anthropic.blocks-overlap "
    "anthropic.block-not-stopped anthropic.unknown-event tool.id-missing tool.name-missing tool.arguments-* "
    "finish.stop-with-calls finish.calls-without-call stream.no-content",
    "anthropic.block-index-reused": "anthropic.block-index-gap anthropic.blocks-overlap anthropic.block-not-stopped "
    "anthropic.delta-after-stop tool.id-duplicate",
    "anthropic.input-missing": "tool.arguments-empty",
    "finish.unknown-value": "anthropic.stop-sequence-reason",
    "anthropic.block-not-stopped": "anthropic.blocks-overlap",
    "anthropic.delta-after-stop": "anthropic.blocks-overlap",
    "anthropic.usage-start": "usage.counters",
    "anthropic.usage-delta": "usage.counters usage.input-in-delta",
    "finish.content-after": "anthropic.block-not-stopped anthropic.blocks-overlap",
    "sse.events-glued": "sse.event-name-*",
    "stream.cut": "cohere.not-ended",
    "usage.zero": "anthropic.usage-*",
    "usage.missing": "anthropic.usage-*",
    "gemini.prompt-blocked": "stream.no-content finish.unknown-value",
    "gemini.arguments-string": "tool.arguments-*",
    "gemini.list-wrong-type": "stream.no-content",
    "ollama.arguments-string": "tool.arguments-*",
    "ollama.call-in-done": "finish.with-content",
    "ollama.data-after-done": "end.data-after-marker",
    "cohere.not-open": "tool.id-missing cohere.not-ended",
    "cohere.not-ended": "cohere.calls-overlap",
    "cohere.start-missing": "cohere.not-open",
    "tool.index-reused": "cohere.not-ended cohere.calls-overlap tool.id-duplicate",
    "tool.name-missing": "cohere.not-open",
}
