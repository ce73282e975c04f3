"""Which fixture answers a request: by what the request says, else by what it looks like. Pure.

In this order, within the provider that the path names (or the only one there is for the dialect of the path):

    1. the shape that the header `x-harness-shape` or the path names: /<provider>/<shape>/v1/chat/completions
    2. the only fixture there is *
    3. the fixture whose recorded request has the same body (but for `model`), or was this file
    4. the shape whose shipped request file has all its members (but for `model`) in the body; none if it is not there
    5. `error`, if tool_choice names a tool that is not offered *
    6. the only fixture whose recorded request has the same conversation; of several, and of all if there is none,
       the shape that goes with what the body asks for: tools, stop, JSON, logprobs, earlier turns, else plain text *

Where several providers fit, `model` tells: `<provider>`, `<provider>/<shape>`, or the model that the requests of one
of them asked for.
What has a star is guessing, and is left out where matching is strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec

from harness.conventions import CONVENTIONS, Convention
from harness.jsontext import Undecodable, decode
from harness.recording import Recording, sha256
from harness.shapes import asked_of

CONVERSATION = ("messages", "input", "contents", "prompt")

Offered = Mapping[str, Mapping[str, Recording]]  # by provider, by shape (further takes as `text.2`)
Files = Mapping[str, Mapping[str, Mapping[str, Any]]]  # the shipped request files: by dialect, by shape


class Found(msgspec.Struct, frozen=True):
    """The fixture that answers."""

    provider: str
    shape: str


class Missing(msgspec.Struct, frozen=True):
    """Why none does: one sentence that says what there is."""

    message: str
    provider: str = ""
    shape: str = ""


def endings() -> dict[str, str]:
    """How the path of a request ends, and the dialect that says. Longer ones first: /completions ends chat's as well.

    Where a plug-in's dialect is asked at the path of another, that is the one named.
    """
    found: dict[str, str] = {}
    for dialect, convention in sorted(CONVENTIONS.items(), key=lambda item: -len(item[1].path)):
        found.setdefault(_ending(convention), dialect)
    return found


def _ending(convention: Convention) -> str:
    return convention.path.partition("?")[0].rpartition("{model}")[2]


def dialect_of(path: str) -> str | None:
    """The dialect whose request path this path ends with, None if there is no such dialect."""
    return next((dialect for ending, dialect in endings().items() if path.endswith(ending)), None)


def _asked_alike(dialect: str | None, other: str) -> bool:
    """Whether a recording of the dialect may answer a request to the path of the other."""
    ours = CONVENTIONS.get(dialect or other)
    return ours is not None and _ending(ours) == _ending(CONVENTIONS[other])


def model_of(path: str, body: bytes) -> str:
    """The model that a request asks for, in its path or its body; "" if in neither."""
    if (model := _model_in(path)) is not None:
        return model
    asked = _decoded(body)
    model = asked.get("model") if asked is not None else None
    return model if isinstance(model, str) else ""


def choose(
    offered: Offered, path: str, body: bytes, shape: str = "", files: Files = MappingProxyType({}), *,
    strict: bool = False,
) -> Found | Missing:  # fmt: skip
    """The fixture that answers a POST of `body` to `path` (decoded, no query); `shape` is the header's."""
    dialect = dialect_of(path)
    if dialect is None:
        return Missing(f"no dialect has the path {path}: it must end with one of {', '.join(endings())}")
    named, shape, problem = _named(offered, path, shape)
    if problem:
        return Missing(problem, named, shape)
    fitting = {
        provider: {
            name: recording for name, recording in shapes.items() if _asked_alike(recording.dialect, dialect)
        }
        for provider, shapes in offered.items() if named in (provider, "")
    }  # fmt: skip
    fitting = {provider: shapes for provider, shapes in fitting.items() if shapes}
    if not fitting:
        return Missing(f"{named or 'no provider here'} has no {dialect} fixture", named, shape)
    if len(fitting) > 1:
        fitting, shape = _of_model(fitting, model_of(path, body), shape)
    if len(fitting) > 1:
        providers = ", ".join(fitting)
        return Missing(
            f"several providers are replayed ({providers}): name one as the model, or in the base_url: /<provider>/v1"
        )
    ((provider, shapes),) = fitting.items()
    dialect = next((recording.dialect for recording in shapes.values() if recording.dialect), dialect)
    if shape:
        if shape in shapes:
            return Found(provider, shape)
        return Missing(f"{provider} has no {dialect} fixture of shape {shape}", provider, shape)
    found = _by_body(dialect, shapes, body, files.get(dialect, {}), strict)
    if found is None and strict:
        return Missing(f"{provider} has no {dialect} fixture of exactly this request{_nearest(shapes, body)}", provider)
    if found is None:
        return Missing(
            f"no {dialect} fixture of {provider} fits this request: name a shape by the header x-harness-shape,"
            " or in the base_url: /<provider>/<shape>/v1", provider,
        )  # fmt: skip
    return Found(provider, found)


def _of_model(
    fitting: dict[str, dict[str, Recording]], model: str, shape: str
) -> tuple[dict[str, dict[str, Recording]], str]:  # fmt: skip
    """The provider that the model names, else those of which a recorded request asked for it, else all; the shape."""
    name, _, named_shape = model.partition("/")
    if name in fitting and (not named_shape or named_shape in fitting[name]):
        return {name: fitting[name]}, shape or named_shape
    asked = {
        provider: shapes for provider, shapes in fitting.items()
        if model and any(_recorded_model(recording) == model for recording in shapes.values())
    }  # fmt: skip
    return asked or fitting, shape


def _recorded_model(recording: Recording) -> Any:
    request = recording.request
    if request is None:
        return None
    if (model := _model_in(request.path)) is not None:
        return model
    return request.body.get("model") if isinstance(request.body, dict) else None


def _nearest(shapes: Mapping[str, Recording], body: bytes) -> str:
    """In which members the request differs from the recorded one that is nearest to it."""
    asked = _decoded(body)
    if asked is None:
        return ": it is no JSON object"
    recorded = {
        shape: recording.request.body for shape, recording in shapes.items()
        if recording.request is not None and isinstance(recording.request.body, dict)
    }  # fmt: skip
    differing = {
        shape: sorted(
            name for name in {*asked, *sent} - {"model"}
            if name not in asked or name not in sent or asked[name] != sent[name]
        )
        for shape, sent in recorded.items()
    }  # fmt: skip
    if not differing:
        return ": none says what was asked"
    shape = min(differing, key=lambda name: (len(differing[name]), name))
    return f"; the nearest is {shape}, which differs in {', '.join(differing[shape])}"


def _named(offered: Offered, path: str, shape: str) -> tuple[str, str, str]:
    """Provider and shape as the path names them, "" where it does not, and what is wrong with that.

    Segments before the provider are passed over (/openai, /v1); after it only a shape or a version may come.
    """
    provider = ""
    only = next(iter(offered.values())) if len(offered) == 1 else {}
    for segment in _before(path).split("/"):
        if segment in offered and not provider:
            provider = segment
        elif segment in offered.get(provider, only) and not shape:
            shape = segment
        elif provider and not shape and segment and not _VERSION.fullmatch(segment):
            return provider, segment, f"{provider} has no fixture of shape {segment}"
    return provider, shape, ""


_VERSION = re.compile(r"v\d\w*")


def _before(path: str) -> str:
    """What stands before the dialect's own path."""
    for convention in sorted(CONVENTIONS.values(), key=lambda convention: -len(convention.path)):
        if (match := _pattern(convention.path).search(path)) is not None:
            return path[: match.start()]
    return path


def _model_in(path: str) -> str | None:
    """The model, where the dialect has it in the path."""
    patterns = (_pattern(convention.path) for convention in CONVENTIONS.values() if convention.model_in == "path")
    return next((match[1] for pattern in patterns if (match := pattern.search(path)) and match[1]), None)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """How a request path ends that is asked at a convention's path; the model, if it stands there, is a group."""
    return re.compile(re.escape(path.partition("?")[0]).replace(re.escape("{model}"), "([^/]*)") + "$")


def _by_body(
    dialect: str, shapes: Mapping[str, Recording], body: bytes, files: Mapping[str, Mapping[str, Any]], strict: bool
) -> str | None:  # fmt: skip
    # further takes (`text.2`) are had by their name only
    shapes = {shape: recording for shape, recording in shapes.items() if "." not in shape}
    if len(shapes) == 1 and not strict:
        return next(iter(shapes))
    asked = _decoded(body)
    if asked is None:
        return None
    digest, plain = sha256(body), _without_model(asked)
    sent = {shape: recording.request for shape, recording in sorted(shapes.items()) if recording.request is not None}
    for shape, request in sent.items():
        if isinstance(request.body, dict) and _without_model(request.body) == plain:
            return shape
        if request.shape_sha256 == digest:
            return shape
    # A provider may have added members (a limit, say), but a file's own are there as they stand in it.
    for shape, file in files.items():
        if all(name in plain and plain[name] == value for name, value in _without_model(file).items()):
            return shape if shape in shapes else None
    if strict:
        return None
    likely = likely_shapes(dialect, asked)
    if likely == ["error"]:
        return "error" if "error" in shapes else None
    said = _conversation(asked)
    same = [shape for shape, request in sent.items() if said is not None and _conversation(request.body) == said]
    if len(same) == 1:
        return same[0]
    return next((shape for among in (same, shapes) for shape in likely if shape in among), None)


def _decoded(body: bytes) -> dict[str, Any] | None:
    """The request's JSON object, None if it is none."""
    try:
        asked = decode(body)
    except Undecodable:
        return None
    return asked if isinstance(asked, dict) else None


def asks_whole(body: bytes) -> bool:
    """Whether a request says that its answer is not to be streamed."""
    asked = _decoded(body)
    return asked is not None and asked.get("stream") is False


def is_whole(body: bytes) -> bool:
    """Whether a recorded answer is one JSON object, as it is where nothing is streamed."""
    return _decoded(body) is not None


def _without_model(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "model"}


def _conversation(body: Any) -> Any:
    """What the user says to the model, under whatever name the dialect has for it; None if it is not there."""
    return next((body[name] for name in CONVERSATION if name in body), None) if isinstance(body, dict) else None


def likely_shapes(dialect: str, body: dict[str, Any]) -> list[str]:
    """Shapes that go with what the body asks for, the likeliest first."""
    asked, said = asked_of(dialect, body), _conversation(body)
    if asked is None:
        return ["text"]
    if asked.tool_choice == "named" and asked.tool_name not in asked.tools:
        return ["error"]
    turns = [turn for turn in said if _role(turn) not in ("system", "developer")] if isinstance(said, list) else []
    if len(turns) > 1:
        return ["multi-turn", "tool-call" if asked.tools else "text"]
    if asked.tools:
        return ["tool-call", "parallel-tools"]
    if asked.stop:
        return ["stop"]
    if asked.json_output:
        return ["structured", "text"]
    if asked.logprobs:
        return ["logprobs", "text"]
    if any(body.get(name) for name in ("reasoning", "reasoning_effort", "thinking", "think")):
        return ["reasoning", "text"]
    return ["text"]


def _role(turn: Any) -> Any:
    return turn.get("role") if isinstance(turn, dict) else None
