"""Recorded streams of many vendors, where the third-party corpus lies beside this repository: reading, lint, pairs.

The corpus is not ours and no byte of it is in this repository; ids name its streams. Framing says nothing on streams
that were `curated`, `normalized`, `reframed` or `rebuilt` before; what is said of servers is said of `wire`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commandline import harness
from reading import ROOT, differences

from harness.asked import Asked
from harness.compare import compare
from harness.dialects import BUILT_IN
from harness.events import Event, Unknown
from harness.findings import Finding
from harness.jsontext import to_json
from harness.recording import Read, Recording, Sent
from harness.reduce import events_of
from harness.rules import lint
from harness.shapes import asked_of
from harness.structure import Reading, Structure, read

PLACE = ROOT.parent  # what the file names in the corpus are relative to
CORPUS = PLACE / "shared" / "corpus"
if not (CORPUS / "MANIFEST.jsonl").is_file():
    pytest.skip("the corpus of recorded streams is not here", allow_module_level=True)

DIALECTS = {
    "openai-chat": "chat", "openai-responses": "responses", "anthropic-messages": "anthropic", "gemini": "gemini",
    "ollama-native": "ollama", "cohere-v2": "cohere", "openai-completions": "completions",
}  # fmt: skip
# Families that are no dialect of ours, and the one nearest to each.
NEAREST = {
    "anthropic-completions": "anthropic", "dashscope-native": "chat", "gemini-interactions": "gemini",
    "openai-assistants": "responses",
}  # fmt: skip


class Stream(NamedTuple):
    """One recorded stream: what its manifest says, what is expected of it, and its request if that is known."""

    id: str
    about: dict[str, Any]
    expect: dict[str, Any] | None
    open: tuple[str, ...]  # fields in which readers differ with good reason
    request: Any

    @property
    def dialect(self) -> str | None:
        return DIALECTS.get(self.about["family"])

    @property
    def body(self) -> bytes:
        return Path(PLACE, self.about["file"]).read_bytes()

    def recording(self, reads: list[Read] | None = None) -> Recording:
        about, request = self.about, self.request
        return Recording(
            body=self.body, reads=reads or [], status=about["status"], decoded_from=about["decoded_from"],
            headers={name.lower(): value for name, value in about["headers"].items()}, end="eof",
            request=None if request is None else Sent(body=request),
        )  # fmt: skip

    @property
    def asked(self) -> Asked | None:
        return asked_of(self.dialect or "", self.request)


def _streams() -> dict[str, Stream]:
    lines = [json.loads(line) for line in (CORPUS / "EXPECT.jsonl").read_text("utf-8").splitlines()]
    expected = {line["id"]: line for line in lines}
    found = {}
    for text in (CORPUS / "MANIFEST.jsonl").read_text("utf-8").splitlines():
        about = json.loads(text)
        line = expected[about["id"]]
        name = about.get("request_file")
        request = json.loads((PLACE / name).read_bytes()) if name else None
        open_fields = tuple(line["open"]) if line.get("contested") else ()
        found[about["id"]] = Stream(about["id"], about, line["expect"], open_fields, request)
    return found


STREAMS = _streams()
OURS = {name: stream for name, stream in STREAMS.items() if stream.dialect is not None}
OTHERS = {name: stream for name, stream in STREAMS.items() if stream.dialect is None}


@cache
def whole(name: str) -> tuple[Reading, list[Event]]:
    """The stream read in its own dialect in one piece, with all that is known of request and response."""
    stream, events = OURS[name], list[Event]()
    assert stream.dialect is not None
    return read(stream.recording(), stream.dialect, stream.asked, events), events


def structure(name: str) -> Structure:
    return whole(name)[0].structure


def told(name: str) -> dict[str, Finding]:
    return {finding.rule: finding for finding in lint(structure(name))}


def test_the_corpus_is_the_one_meant() -> None:
    assert (len(STREAMS), len(OURS)) == (344, 333)
    assert {stream.about["family"] for stream in OTHERS.values()} == NEAREST.keys()
    assert all(stream.expect is not None for stream in OURS.values())


# -- reading ------------------------------------------------------------------------------------------------------

# Contested readings in which ours is not the one of the corpus, in fields it leaves open: the field, and why.
OTHERWISE = {
    "anthropic-messages.anthropic.607c7ce5bfb1": {"finish_reason": "pause_turn has no normal form: other, not null"},
    "gemini.google.64d98e30318a": {"finish_reason": "UNEXPECTED_TOOL_CALL has no normal form: other, not null"},
    "openai-chat.groq.dea1a9649734": {"usage": "usage counts wherever it stands, x_groq too (cases/README, rule 10)"},
    "openai-chat.together.6e800bd68670": {"finish_reason": "eos is stop (cases/README, finish_reason)"},
}


@pytest.mark.parametrize("name", OURS)
def test_a_stream_reads_as_expected(name: str) -> None:
    expect = OURS[name].expect
    assert expect is not None
    problems = differences(json.loads(to_json(whole(name)[0].message)), expect)
    assert {problem.partition(":")[0] for problem in problems} == OTHERWISE.get(name, {}).keys(), problems
    assert OTHERWISE.get(name, {}).keys() <= set(OURS[name].open)


@pytest.mark.parametrize("name", OURS)
def test_cuts_change_nothing(name: str) -> None:
    """Byte by byte, and as the network cut it where that is known; message, notes, events and structure."""
    stream, (reading, events) = OURS[name], whole(name)
    assert stream.dialect is not None
    body = stream.body
    assert events == events_of(body, stream.dialect), "reading and observing take two paths through the reducer"
    ends = [list(range(1, len(body) + 1))]
    if "reads_file" in stream.about:
        sizes = json.loads((PLACE / stream.about["reads_file"]).read_bytes())
        ends.append([sum(sizes[: number + 1]) for number in range(len(sizes))])
        assert ends[-1][-1] == len(body)
    for cuts in ends:
        again: list[Event] = []
        reads = [Read(end, 0) for end in cuts]
        found = read(stream.recording(reads), stream.dialect, stream.asked, again)
        assert again == events
        assert found.message == reading.message
        assert found.structure == reading.structure


def test_no_stream_makes_any_dialect_raise() -> None:
    """Each stream under all dialects but its own, those of families that are none of ours under all; judged too."""
    for stream in STREAMS.values():
        for dialect in BUILT_IN.keys() - {stream.dialect}:
            lint(read(stream.recording(), dialect).structure)
    for stream in OTHERS.values():
        body = stream.body
        reads = [Read(end, 0) for end in range(1, len(body) + 1)]
        for dialect in BUILT_IN:
            events, again = list[Event](), list[Event]()
            one = read(stream.recording(), dialect, events=events)
            cut = read(stream.recording(reads), dialect, events=again)
            assert (again, cut.message, cut.structure) == (events, one.message, one.structure)


# -- what nobody knows --------------------------------------------------------------------------------------------

# Every `unknown` there is: who sends it, and what it is. A row is here because the source that documents the dialect
# does not have it: OpenAI's SDK lists the members of a delta, and the test asks it.
UNKNOWN = {
    ("chat", "delta.channel"): ({"groq"}, "gpt-oss's harmony channel, beside `reasoning`"),
    ("chat", "delta.graph_data"): ({"writer"}, "Writer's own, in its SDK's types: sources of a knowledge graph"),
    ("chat", "delta.name"): ({"huggingface"}, "an upstream of the router repeats the role under `name`"),
    ("chat", "delta.provider_metadata"): ({"vercel-gateway"}, "the gateway's own routing and cost"),
    ("chat", "delta.token_id"): ({"huggingface", "together"}, "Together's own, there and behind the router"),
}
# The same for families that are no dialect, read as the one nearest: their vendors document them as other protocols.
ALIEN = {
    "anthropic-completions": {"completion"},
    "dashscope-native": set[str](),  # its usage reads as a chunk without choices, which a rule tells
    "gemini-interactions": {
        "interaction.completed", "interaction.created", "interaction.status_update", "step.delta", "step.start",
        "step.stop",
    },
    "openai-assistants": {
        "message_creation", "thread.message.completed", "thread.message.created", "thread.message.delta",
        "thread.message.in_progress", "thread.run.completed", "thread.run.created", "thread.run.in_progress",
        "thread.run.queued", "thread.run.step.delta", "tool_calls",
    },
}  # fmt: skip


def test_what_is_unknown_is_known_to_be_undocumented() -> None:
    chunk = pytest.importorskip("openai.types.chat.chat_completion_chunk")
    found = defaultdict[tuple[str, str], set[str]](set)
    for name, stream in OURS.items():
        for event in whole(name)[1]:
            if isinstance(event, Unknown):
                found[stream.dialect or "", event.name].add(stream.about["provider"])
    for (dialect, name), providers in sorted(found.items()):
        sys.stdout.write(f"{dialect} {name}: {', '.join(sorted(providers))}\n")
    assert found == {key: providers for key, (providers, _) in UNKNOWN.items()}
    documented = {f"delta.{name}" for name in chunk.ChoiceDelta.model_fields}
    assert {"delta.content", "delta.tool_calls"} <= documented
    assert not documented & {name for _, name in UNKNOWN}


def test_other_protocols_are_unknown_to_the_dialect_nearest() -> None:
    found = defaultdict[str, set[str]](set)
    for stream in OTHERS.values():
        family = stream.about["family"]
        events = events_of(stream.body, NEAREST[family])
        found[family] |= {event.name for event in events if isinstance(event, Unknown)}
    assert found == ALIEN


# -- lint ---------------------------------------------------------------------------------------------------------

# The streams that RULES.md names beside a rule (its column "seen"), and the severity of the rule there.
SEEN = """
sse.event-name-missing n openai-responses.openrouter.45c52d45b886
end.marker-unterminated n openai-chat.groq.3d85fb28957e
stream.cut f gemini.google.cd7288b51e90
end.marker-missing f openai-chat.cerebras.3f9e4e331914
end.data-after-marker n anthropic-messages.opencode-zen.21fa07790831
end.marker-foreign n openai-responses.openrouter.45c52d45b886
finish.missing f openai-chat.snowflake.c3a805824796
finish.unknown-value n openai-chat.together.6e800bd68670
finish.repeated n openai-chat.avian.5c71adb66507 openai-chat.openrouter.0eef8082551e
finish.with-content n openai-chat.mistral.3a2792c40b48
finish.key-absent c openai-chat.cloudflare.0ab44f9d7073
error.in-stream f openai-chat.groq.25e988586b4d
error.finish-reason f gemini.google.64d98e30318a
chunk.choices-empty n openai-chat.azure.0064f3f0d09f
chunk.message f openai-chat.perplexity.874bfc58bb72 openai-chat.writer.67b0afba6530
chunk.object f openai-chat.zai.06d7db94c267
chunk.id-changes f openai-chat.avian.5c71adb66507
chunk.id-missing n openai-chat.google.80503f60f91a
role.missing f openai-chat.cloudflare.0ab44f9d7073
role.repeated n openai-chat.databricks.2df75f133639
role.null c openai-chat.dashscope.17d542dc8698
text.not-a-string f openai-chat.mistral.3a2792c40b48
reasoning.field n openai-chat.groq.25e988586b4d
reasoning.in-text n openai-chat.groq.96af4c605818
tool.index-missing f openai-chat.google.8b48f0fcc802 openai-chat.ollama.296359fb2351
tool.index-reused f openai-chat.openrouter.7a5494a4b747
tool.index-sparse f openai-chat.zai.758022012a27
tool.list-empty n openai-chat.azure.0064f3f0d09f
tool.id-missing n openai-chat.google.8b48f0fcc802
tool.id-on-continuation n openai-chat.dashscope.582044486776
tool.type-null f openai-chat.writer.67b0afba6530
tool.type-missing n openai-chat.mistral.0ef69c3b0ca3
tool.arguments-not-json f openai-chat.openrouter.c5f7b1a035d4
tool.arguments-empty n openai-chat.databricks.2df75f133639
tool.arguments-key-absent c openai-chat.huggingface.30b0383325f3
usage.missing n openai-chat.ollama.296359fb2351
usage.position n openai-chat.cerebras.3f9e4e331914
usage.repeated n openai-chat.databricks.2df75f133639
responses.output-empty f openai-responses.chatgpt.2a08a6711430
responses.id-changes f openai-responses.copilot.fa04f6125614
responses.response-id-changes f openai-responses.copilot.fa04f6125614
responses.arguments-only-done n openai-responses.lmstudio.6ee9f4c115cf
responses.sequence-missing n openai-responses.openai.5980ea321422
responses.incomplete n openai-responses.openai.60da725db2aa
gemini.prompt-blocked f gemini.vertex.42f092160fce
"""
ROWS = [(code, letter, name) for code, letter, *names in map(str.split, SEEN.split("\n")[1:-1]) for name in names]


@pytest.mark.parametrize(("code", "letter", "name"), ROWS)
def test_a_stream_named_beside_a_rule_shows_it(code: str, letter: str, name: str) -> None:
    assert str(told(name)[code].severity)[0] == letter


def test_a_reason_that_differs_is_told_by_comparison() -> None:
    """RULES names this stream: OpenAI says stop where the request names the function, Groq says tool_calls."""
    found = compare([structure("openai-chat.openai.6698b2fe31d6")], structure("openai-chat.groq.3d85fb28957e"))
    finding = next(finding for finding in found.findings if finding.rule == "finish.differs")
    assert (finding.severity, finding.baseline, finding.candidate) == ("negotiable", ["stop"], ["tool_calls"])


def providers(code: str, *, notes: bool = False) -> dict[str, int]:
    """How many chat streams of each provider have the finding (or note)."""
    found = defaultdict[str, int](int)
    for name, stream in OURS.items():
        if stream.dialect == "chat":
            found[stream.about["provider"]] += code in (structure(name).notes if notes else told(name))
    return {provider: count for provider, count in sorted(found.items()) if count}


# What a vendor does is done in all its streams, and nowhere else: how many chat streams have the finding, by provider.
# Those of Hugging Face's router came from Cerebras.
VENDORS = {
    "end.marker-missing": {"cerebras": 5, "huggingface": 2, "perplexity": 4, "writer": 3},
    "error.in-stream": {"gpustack": 1, "groq": 2, "openrouter": 2},
    "chunk.message": {"perplexity": 4, "writer": 3},
    "tool.index-reused": {"openrouter": 1},
    "tool.index-missing": {"google": 2, "mistral": 3, "ollama": 2},
    "chunk.choices-empty": {"azure": 12, "copilot": 4},
    "chunk.created-form": {},  # Cerebras has a fraction of its own by that name, in `time_info`
}


@pytest.mark.parametrize("code", VENDORS)
def test_what_a_vendor_does_is_found_in_its_streams_and_nowhere_else(code: str) -> None:
    assert providers(code) == VENDORS[code]


@pytest.mark.parametrize(
    ("name", "delivery", "envelope"),
    [
        ("openai-chat.groq.25e988586b4d", "event-name", "error-object"),
        ("openai-chat.groq.44af79c7cf4c", "event-name", "error-object"),
        ("openai-chat.openrouter.7a5494a4b747", "data", "error-object"),
        ("openai-chat.openrouter.baafd4cb5cec", "data", "error-object"),
        ("openai-chat.gpustack.0cc39fcd5efa", "field", "error-object"),
        ("cohere-v2.cohere.1c1f5de0fa62", "terminal-event", "error-string"),
        ("openai-responses.openai.36cf9a63baad", "event-name", "error-object"),
    ],
)
def test_how_an_error_inside_a_200_is_carried(name: str, delivery: str, envelope: str) -> None:
    assert (structure(name).get("error.delivery"), structure(name).get("error.envelope")) == (delivery, envelope)


# Wire streams of those whose dialect it is, which have nothing negotiable or fatal but what really happened in them.
HAPPENED = {
    "gemini.google.64d98e30318a": {"error.finish-reason"},  # UNEXPECTED_TOOL_CALL
    "gemini.google.cd7288b51e90": {"stream.cut"},  # no finish reason comes
    "openai-completions.openai.4c339021cf74": {"choice.missing", "http.media-type"},  # of 2023: n=2, application/json
    "openai-responses.openai.5980ea321422": {"responses.sequence-missing"},  # before there were sequence numbers
    "openai-responses.openai.60da725db2aa": {"responses.incomplete"},  # cut by the limit
    "openai-responses.openai.d226592d04a9": {"responses.incomplete"},
    "cohere-v2.cohere.1c1f5de0fa62": {"error.in-stream"},
}
MAJORS = {
    ("openai-chat", "openai"): 12, ("openai-completions", "openai"): 2, ("openai-responses", "openai"): 7,
    ("anthropic-messages", "anthropic"): 8, ("anthropic-messages", "azure"): 2, ("anthropic-messages", "vertex"): 3,
    ("gemini", "google"): 8, ("gemini", "vertex"): 4, ("cohere-v2", "cohere"): 8, ("ollama-native", "ollama"): 5,
}  # fmt: skip


def test_the_majors_own_streams_are_clean() -> None:
    """Padding (`obfuscation`), service tiers and other extras of theirs are in them, and are no finding."""
    counted, found = defaultdict[tuple[str, str], int](int), {}
    for name, stream in OURS.items():
        key = (stream.about["family"], stream.about["provider"])
        if key in MAJORS and stream.about["fidelity"] == "wire":
            counted[key] += 1
            if codes := {code for code, finding in told(name).items() if finding.severity != "cosmetic"}:
                found[name] = codes
    assert counted == MAJORS
    assert found == HAPPENED
    assert sum("obfuscation" in stream.about["features"] for stream in OURS.values()) > 15


def test_lint_takes_the_whole_corpus_as_files() -> None:
    """As users run it: bare files, dialects told by content. What tells none is one line on stderr, the rest comes."""
    files = [PLACE / stream.about["file"] for stream in STREAMS.values()]
    done = harness("lint", "--json", *files)
    assert done.code == 2
    printed = {Path(line["file"]).name for line in done.objects}
    silent = {name for name, stream in STREAMS.items() if Path(stream.about["file"]).name not in printed}
    # An error under `event: error` alone might be any dialect's.
    assert silent - {"openai-chat.groq.44af79c7cf4c"} <= OTHERS.keys()
    assert done.err.count("\n") == len(silent)
    assert "Traceback" not in done.err


# -- pairs --------------------------------------------------------------------------------------------------------

# Streams of one provider and model, asked for the same, which do differ: baseline and candidate, the findings, and what
# in the bytes says so.
DIFFER = {
    ("cohere-v2.cohere.a87e373a12e6", "cohere-v2.cohere.1c1f5de0fa62"): ({"error.in-stream"}, "it failed"),
    ("cohere-v2.cohere.cd792d4a37c4", "cohere-v2.cohere.1c1f5de0fa62"): ({"error.in-stream"}, "it failed"),
    ("ollama-native.ollama.e23f1c79b496", "ollama-native.ollama.526cce8d9239"): (
        {"usage.counters"}, "prompt_eval_count is left out where the prompt was cached",
    ),
    ("openai-chat.zai.2fa0018d8b4c", "openai-chat.zai.758022012a27"): (
        {"tool.index-sparse"}, "the only call has index 1; in the other stream, 0",
    ),
}  # fmt: skip
# A failed baseline measures nothing.
UNMEASURED = {(candidate, baseline) for baseline, candidate in DIFFER if baseline.startswith("cohere")}


def groups() -> list[list[str]]:
    """Wire streams by family, provider, model and what the request asked for, as far as it decides what is due."""
    found = defaultdict[tuple[Any, ...], list[str]](list)
    for name, stream in OURS.items():
        asked, about = stream.asked, stream.about
        if about["fidelity"] == "wire" and asked is not None:
            due = (bool(asked.tools), asked.tool_choice, asked.usage, asked.n, asked.logprobs, bool(asked.stop),
                   asked.json_output)  # fmt: skip
            found[about["family"], about["provider"], about["model"], due].append(name)
    return [names for names in found.values() if len(names) > 1]


def test_streams_of_one_server_conform_to_each_other() -> None:
    """Every ordered pair: nothing negotiable or fatal, but where the bytes really differ."""
    pairs, found, unmeasured = 0, {}, set()
    for names in groups():
        for baseline in names:
            for candidate in names:
                if baseline == candidate:
                    continue
                pairs += 1
                compared = compare([structure(baseline)], structure(candidate))
                if compared.not_measured:
                    unmeasured.add((baseline, candidate))
                codes = {finding.rule for finding in compared.findings if finding.severity != "cosmetic"}
                if codes:
                    found[baseline, candidate] = codes
    assert pairs == 154
    assert found == {pair: codes for pair, (codes, _) in DIFFER.items()}
    assert unmeasured == UNMEASURED
