"""The part of the rule catalogue that speaks of Responses streams, and what its rules explain. Data only.

Source: RULES, sections 3 and 4; the lifecycle is that of OpenAI's "Streaming events" of the Responses API.
"""

from __future__ import annotations

from harness.rule import C, F, N, Rule

RESPONSES = [
    Rule("responses.output-empty", F, "note", "the final event has no output though items were streamed ({detail}): "
         "readers of the final object get an empty answer", "take the items from the stream, not from the final object"),
    Rule("responses.final-differs", F, "note", "the final object lacks, or differs from, what was streamed ({detail}): "
         "readers of the one and of the other get two answers", "have the server repeat in the final object what it sent"),
    Rule("responses.status-differs", N, "note", "the terminal event and the status in it disagree ({detail}); two "
         "readers see two outcomes", "go by the status, and have the server send the event that fits it"),
    Rule("responses.id-changes", F, "note", "one item comes under several ids ({detail}): its text is counted twice, or "
         "an official helper raises", "match items by output_index, and have the server keep one id per item"),
    Rule("responses.response-id-changes", F, "note", "the response's id changes in mid-answer ({detail}): an official "
         "helper raises, and the next turn refers to a response nobody knows", "have the server keep one id per response"),
    Rule("responses.index-shared", F, "note", "two items stand at one output_index ({detail}): readers keyed by it lose "
         "one of them, or raise", "match items by id, and have the server number them"),
    Rule("responses.index-missing", F, "note", "the index that says where a piece belongs is missing or changes "
         "({detail}): official helpers raise on it", "match items by id, and have the server send the index"),
    Rule("responses.created-missing", F, "note", "the stream does not begin with response.created ({detail}): official "
         "helpers raise on anything before it", "have the server send it first"),
    Rule("responses.item-not-added", F, "note", "an item is used before it was added ({detail}): official helpers raise",
         "have the server send response.output_item.added first"),
    Rule("responses.part-not-added", F, "note", "a content part is used before it was added ({detail}): official helpers "
         "raise", "have the server send the part's added event first"),
    Rule("responses.item-content-missing", F, "note", "a message is opened without its content list: official helpers "
         "that add parts to it raise", "have the server send an empty list"),
    Rule("responses.content-index-start", F, "note", "content parts do not count 0, 1, 2 ({detail}): used as a position "
         "the index raises", "have the server number parts from 0; use the index as a key"),
    Rule("responses.item-not-done", N, "note", "an item is never closed ({detail}); readers that act when it is done "
         "never do", "act at the terminal event at the latest"),
    Rule("responses.part-not-done", N, "note", "a content part is never closed ({detail}); readers that act when it is "
         "done never do", "act when the item is done"),
    Rule("responses.text-not-done", N, "note", "text is streamed but its done event never comes ({detail}); readers of "
         "the whole text get none", "act when the item is done"),
    Rule("responses.arguments-not-done", N, "note", "arguments are streamed but their done event never comes ({detail}); "
         "readers that run the tool on it never do", "run the tool when the item is done"),
    Rule("responses.delta-after-done", N, "note", "something goes on after its done event ({detail}); readers that acted "
         "on done miss it", "act at the terminal event"),
    Rule("responses.arguments-only-done", N, "note", "arguments come whole, without deltas ({detail}): live views stay "
         "empty, and readers of deltas call the tool with {{}}", "take the arguments from the done event"),
    Rule("responses.done-differs", N, "note", "a done event says something else than the deltas before it ({detail}); "
         "two readers get two answers", "take the value of the done event"),
    Rule("responses.sequence-gaps", N, "note", "sequence numbers jump or stand still ({detail}); resuming after a number "
         "loses or repeats events", "go by the order of arrival, and look for a relay that drops events"),
    Rule("responses.sequence-missing", N, "note", "events have no sequence number ({detail}); a broken stream cannot be "
         "resumed", "go by the order of arrival"),
    Rule("responses.unknown-event", N, "note", "an event type nobody documents is sent ({detail}); an accumulator that "
         "knows all types raises on it", "skip events of unknown types"),
    Rule("responses.deprecated-event", N, "note", "events have a name the API gave up ({detail}); readers of today's "
         "names see nothing", "read both names, or update the server"),
    Rule("responses.piece-elsewhere", F, "note", "a piece does not stand where it is documented ({detail}): readers get "
         "undefined in place of text", "have the server send it where it is documented"),
    Rule("responses.close-order", C, "note", "an item is opened before the one before it was closed; fine when items are "
         "matched by id", "match items by id or output_index"),
    Rule("responses.incomplete", N, "lint", "the response ends with response.incomplete ({detail}), a documented end that "
         "one official helper does not take for one", "treat it as an end, with the reason in incomplete_details"),
]  # fmt: skip

# code -> the fact that shows how the other side does it: where its bytes are looked for.
COUNTERPART_RESPONSES: dict[str, str] = {
    "responses": "responses.terminal",
    "responses.created-missing": "responses.created",
    "responses.id-changes": "responses.items-done",
    "responses.index-shared": "responses.items-added",
    "responses.index-missing": "responses.items-added",
    "responses.item-not-added": "responses.items-added",
    "responses.item-content-missing": "responses.items-added",
    "responses.close-order": "responses.items-added",
    "responses.part-not-added": "responses.parts-added",
    "responses.content-index-start": "responses.parts-added",
    "responses.item-not-done": "responses.items-done",
    "responses.part-not-done": "responses.parts-done",
    "responses.text-not-done": "responses.text-done",
    "responses.done-differs": "responses.text-done",
    "responses.delta-after-done": "responses.text-done",
    "responses.arguments-not-done": "responses.arguments-done",
    "responses.arguments-only-done": "responses.arguments-deltas",
}

# cause -> what it explains, patterns as in catalogue.EXPLAINS (RULES, section 4).
EXPLAINS_RESPONSES: dict[str, str] = {
    "responses.output-empty": "usage.missing responses.final-differs",
    "responses.id-changes": "responses.item-not-* responses.index-shared responses.final-differs responses.part-not-done "
    "responses.text-not-done",
    "responses.created-missing": "responses.sequence-gaps",
    "responses.item-not-added": "responses.part-not-added responses.item-not-done responses.final-differs "
    "responses.sequence-gaps",
    "responses.part-not-added": "responses.part-not-done responses.sequence-gaps",
    "responses.item-not-done": "responses.part-not-done responses.text-not-done responses.arguments-not-done "
    "responses.sequence-gaps",
    "responses.part-not-done": "responses.text-not-done responses.sequence-gaps",
    "responses.text-not-done": "responses.sequence-gaps",
    "responses.arguments-not-done": "responses.sequence-gaps",
    "responses.arguments-only-done": "responses.arguments-not-done responses.sequence-gaps tool.arguments-split",
    "responses.delta-after-done": "responses.done-differs responses.sequence-gaps",
    "responses.done-differs": "responses.sequence-gaps",
    "responses.item-content-missing": "responses.part-not-added responses.text-not-done responses.output-empty",
    "responses.deprecated-event": "responses.unknown-event",
    "responses.status-differs": "finish.length-hidden",
    "finish.unknown-value": "responses.incomplete",
    "sse.event-name-missing": "responses.sequence-missing sse.event-names",
}
