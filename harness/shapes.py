"""Shapes: what each must exercise, what a request asked for, and whether a stream exercised it.

Source: RULES, section 5, and DESIGN, "Shapes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.asked import Asked

CANONICAL = ("text", "tool-call", "stop", "error")

SHAPES: dict[str, str] = {
    "text": "A plain answer: text, and no call.",
    "tool-call": "A tool is offered (tool_choice auto) and the answer calls it.",
    "stop": "The answer reaches the stop string: it ends there, and neither that string nor what follows it is sent.",
    "error": "The request must fail, by HTTP status or in the stream; where and how the error arrives is what counts.",
    "parallel-tools": "The answer makes at least two calls.",
    "reasoning": "The answer thinks first: reasoning pieces, or reasoning tokens in the usage.",
    "structured": "JSON is asked for (json_object or json_schema) and the answer is text that parses.",
    "refusal": "The model declines: refusal pieces, or a content filter's finish.",
    "logprobs": "Log probabilities are asked for, and the answer has text.",
    "multi-turn": "The history holds a call and its result; the answer is text.",
}

# Nothing was measured (DESIGN, "Not measured"); any other 4xx, and 501, is the candidate's answer to the request.
UNMEASURED_STATUS = frozenset({401, 402, 403, 404, 407, 408, 425, 429})

FinishClass = Literal["stop", "length", "calls", "filter", "error", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The facts of one response that decide whether its shape was exercised.

    `result`: error if an error was read, cut if neither end marker nor finish was, nothing if no channel carried
    anything, else ok. `status` is null if unknown (a bare file); `json_body`: the body is one JSON text, no stream.
    `stop_named`: whether the response says that the stop string was hit; null in dialects that never say.
    `stop_in_text`, `after_stop_in_text`: see `stop_marks`. `forced`: see `forced`.
    """

    result: Literal["ok", "error", "cut", "nothing"]
    status: int | None = None
    json_body: bool = False
    finish_class: FinishClass | None = None
    text: str = ""
    n_calls: int = 0
    refusal: bool = False
    reasoning: bool = False
    reasoning_tokens: int | None = None
    markup: bool = False
    think: bool = False
    stop_in_text: bool = False
    after_stop_in_text: bool = False
    stop_named: bool | None = None
    forced: bool = False


def exercised(shape: str, view: View, *, baseline_failed: bool = False) -> str | None:
    """None if the response exercised the shape, or is so wrong that rules must speak; else why it measured nothing.

    `baseline_failed` is for shape `error`: an answer where the baseline failed is a finding (error.swallowed), and so
    measured. A shape we do not know is exercised by any answer.
    """
    if unmeasured := _unmeasured(shape, view):
        return unmeasured
    failed = view.result == "error" or (view.status or 200) >= 400 or view.finish_class == "error"
    if shape == "error":
        return None if failed or baseline_failed or view.result != "ok" else "the request was answered"
    # An empty answer with a reason for it is not a broken one.
    excused = view.result == "nothing" and view.finish_class in ("length", "filter")
    if failed or (view.result != "ok" and not excused):
        return None
    if view.finish_class == "calls" and not view.n_calls:
        return None  # finish.calls-without-call, whatever was asked
    if view.finish_class == "length" and shape != "logprobs":
        return "stopped by the length limit"
    if view.finish_class == "filter" and shape != "refusal":
        return "content filter"
    judge = _JUDGES.get(shape)
    return judge(view) if judge else None


def _unmeasured(shape: str, view: View) -> str | None:
    status = view.status
    if status is None:
        return None
    if status in UNMEASURED_STATUS or 300 <= status < 400:
        return f"HTTP {status}"
    if status >= 500 and status != 501 and not (shape == "error" and view.json_body):
        return f"HTTP {status}"
    return None


def _text(view: View) -> str | None:
    if view.n_calls:
        return "called a tool"
    return None if view.text.strip() else "no text"


def _tool_call(view: View) -> str | None:
    return None if view.n_calls or view.markup or view.forced else "answered without calling the tool"


def _parallel(view: View) -> str | None:
    return "one call only" if view.n_calls == 1 else _tool_call(view)


def _stop(view: View) -> str | None:
    if view.stop_in_text:
        return None  # stop.text-included
    hit = view.finish_class in ("stop", None) and view.stop_named is not False  # no finish at all: finish.missing
    return None if hit and view.text.strip() and not view.after_stop_in_text else "stop not reached"


def _reasoning(view: View) -> str | None:
    return None if view.reasoning or view.think or (view.reasoning_tokens or 0) > 0 else "no reasoning"


def _structured(view: View) -> str | None:
    return "refused" if view.refusal else _text(view)


def _refusal(view: View) -> str | None:
    return None if view.refusal or view.finish_class == "filter" else "did not refuse"


def _logprobs(view: View) -> str | None:
    return None if view.text.strip() else "no text"


_JUDGES: dict[str, Callable[[View], str | None]] = {
    "text": _text,
    "multi-turn": _text,
    "tool-call": _tool_call,
    "parallel-tools": _parallel,
    "stop": _stop,
    "reasoning": _reasoning,
    "structured": _structured,
    "refusal": _refusal,
    "logprobs": _logprobs,
}


def stop_marks(dialect: str, body: Any, text: str) -> tuple[bool, bool]:
    """Whether a stop string of the request stands in the text, and whether what follows it does.

    What follows it is what the last user message has after the stop string it quotes ("... scripted five": "five");
    case is ignored there, as a model that repeats may change it.
    """
    asked, row = asked_of(dialect, body), ASKED_ROWS.get(dialect)
    if asked is None or row is None:
        return False, False
    said, lower = _last_text(_at(body, row.said)), text.casefold()
    after = [said.partition(stop)[2].strip().casefold() for stop in asked.stop]
    return any(stop in text for stop in asked.stop), any(rest in lower for rest in after if rest)


def forced(asked: Asked | None) -> bool:
    """Whether the request demands a call of a tool it offers."""
    if asked is None:
        return False
    return bool(asked.tools) if asked.tool_choice == "required" else asked.tool_name in asked.tools


# What a request asked for: one row a dialect. A path is the way through the members; several are tried in turn.

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRow:
    """Where a request body of one dialect says what `Asked` has; a default is chat's place, or nowhere."""

    tools: Callable[[Mapping[str, Any]], Iterator[Any]] | None = None
    choice: tuple[Path, ...] = ()
    usage: Path | None = None  # None: there is no switch, usage is always due
    n: Path = ("n",)
    logprobs: tuple[Path, ...] = (("logprobs",),)
    stop: Path = ("stop",)
    format: tuple[Path, ...] = ()
    limits: tuple[Path, ...] = (("max_tokens",),)
    said: Path = ("messages",)
    streams: bool = False  # whether it streams unless `stream` says otherwise


def asked_of(dialect: str, body: Any) -> Asked | None:
    """What the request asked for; None if there is no request to look at, or the dialect is not built in.

    `body` is any decoded JSON: a member that cannot be understood was not asked for.
    """
    row = ASKED_ROWS.get(dialect)
    if row is None or not isinstance(body, Mapping):
        return None
    offered = row.tools(body) if row.tools else ()
    choice, named = _choice(_first(body, row.choice))
    n, limit = _at(body, row.n), _first(body, row.limits)
    return Asked(
        tools=tuple(dict.fromkeys(name for name in offered if isinstance(name, str) and name)),
        tool_choice=choice,
        tool_name=named,
        usage=None if row.usage is None else _at(body, row.usage) is True,
        n=n if type(n) is int and n > 0 else 0,
        logprobs=any(_wants_logprobs(_at(body, path)) for path in row.logprobs),
        stop=_strings(_at(body, row.stop)),
        json_output=any(_wants_json(_at(body, path)) for path in row.format),
        max_tokens=limit if type(limit) is int and limit > 0 else 0,
        stream=body.get("stream", row.streams) is True,
    )


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _first(value: Any, paths: Sequence[Path]) -> Any:
    """What stands at the first of the paths that leads to anything."""
    return next((found for found in (_at(value, path) for path in paths) if found is not None), None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else _list(value)
    return tuple(text for text in found if isinstance(text, str) and text)


def _functions(body: Mapping[str, Any]) -> Iterator[Any]:
    """Names in chat's lists: functions, free-form tools, and the old `functions`."""
    for tool in _list(body.get("tools")):
        yield _first(tool, (("function", "name"), ("custom", "name")))
    for function in _list(body.get("functions")):
        yield _at(function, ("name",))


def _flat(body: Mapping[str, Any]) -> Iterator[Any]:
    """Names in lists whose entries are named themselves; a tool the server runs has a type of its own."""
    for tool in _list(body.get("tools")):
        if _at(tool, ("type",)) in (None, "function", "custom"):
            yield _at(tool, ("name",))


def _declarations(body: Mapping[str, Any]) -> Iterator[Any]:
    for tool in _list(body.get("tools")):
        for key in ("functionDeclarations", "function_declarations"):
            for declaration in _list(_at(tool, (key,))):
                yield _at(declaration, ("name",))


_CHOICES = {"none": "none", "auto": "auto", "validated": "auto", "required": "required", "any": "required"}


def _choice(value: Any) -> tuple[str, str]:
    """The kind of a tool choice in any dialect's form ("" if there is none), and the tool it names or ""."""
    name = _first(value, (("function", "name"), ("custom", "name"), ("name",)))
    if isinstance(name, str) and name:
        return "named", name
    word = value if isinstance(value, str) else _first(value, (("allowed_tools", "mode"), ("mode",), ("type",)))
    kind = _CHOICES.get(word.lower(), "") if isinstance(word, str) else ""
    allowed = _strings(_first(value, (("allowedFunctionNames",), ("allowed_function_names",))))
    return ("named", allowed[0]) if kind == "required" and len(allowed) == 1 else (kind, "")


def _wants_logprobs(value: Any) -> bool:
    """true, a number of alternatives (0 counts: the chosen token's own), or Responses' entry in `include`."""
    if isinstance(value, list):
        return "message.output_text.logprobs" in value
    return value is True or type(value) is int


def _wants_json(value: Any) -> bool:
    """`value` is a format's name, its object, or the schema itself."""
    kind = value.get("type") if isinstance(value, Mapping) else value
    return kind in ("json_object", "json_schema", "json", "application/json", "object", "OBJECT")


def _last_text(said: Any) -> str:
    """The text of the last user message; of a bare prompt, the prompt."""
    if isinstance(said, str):
        return said
    for entry in reversed(_list(said)):
        if isinstance(entry, str):
            return entry
        if _at(entry, ("role",)) not in ("user", None):
            continue
        content = _first(entry, (("content",), ("parts",)))
        if isinstance(content, str):
            return content
        parts = [_at(part, ("text",)) for part in _list(content)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


_CHAT_LIMITS: tuple[Path, ...] = (("max_completion_tokens",), ("max_tokens",))
_GEMINI = "generationConfig"
_CALLING = (("toolConfig", "functionCallingConfig"), ("tool_config", "function_calling_config"))

ASKED_ROWS: dict[str, AskedRow] = {
    "chat": AskedRow(
        tools=_functions, choice=(("tool_choice",), ("function_call",)), usage=("stream_options", "include_usage"),
        format=(("response_format",),), limits=_CHAT_LIMITS,
    ),
    "completions": AskedRow(usage=("stream_options", "include_usage"), said=("prompt",)),
    "responses": AskedRow(
        tools=_flat, choice=(("tool_choice",),), logprobs=(("include",), ("top_logprobs",)),
        format=(("text", "format"),), limits=(("max_output_tokens",),), said=("input",),
    ),
    "anthropic": AskedRow(
        tools=_flat, choice=(("tool_choice",),), stop=("stop_sequences",),
        format=(("output_config", "format"), ("output_format",)),
    ),
    "gemini": AskedRow(
        tools=_declarations, choice=_CALLING, n=(_GEMINI, "candidateCount"), logprobs=((_GEMINI, "responseLogprobs"),),
        stop=(_GEMINI, "stopSequences"),
        format=((_GEMINI, "responseJsonSchema"), (_GEMINI, "responseSchema"), (_GEMINI, "responseMimeType")),
        limits=((_GEMINI, "maxOutputTokens"),), said=("contents",), streams=True,
    ),
    "ollama": AskedRow(
        tools=_functions, stop=("options", "stop"), format=(("format",),), limits=(("options", "num_predict"),),
        streams=True,
    ),
    "cohere": AskedRow(
        tools=_functions, choice=(("tool_choice",),), stop=("stop_sequences",), format=(("response_format",),),
    ),
}  # fmt: skip
