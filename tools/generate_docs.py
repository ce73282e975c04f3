"""Writes the pages of docs/ that say what the code says.

    rules.md        every rule of the catalogue, as `harness rules CODE` explains it
    cli.md          the help of every verb
    exit-codes.md   harness.errors: what each code means, and which failure has which
    events.md       the kinds of harness.events, the members of a message
    python.md       every public name, from its docstring; the examples (python_page.py)

    python tools/generate_docs.py            writes the pages
    python tools/generate_docs.py --check    says whether one would change; exit 1 if it would
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec
from python_page import python

from harness.catalogue import CATALOGUE, EXPLAINS
from harness.cli import COMMANDS
from harness.cli import harness as command_line
from harness.cli.rules import SIDES, as_object, varies
from harness.errors import Exit, HarnessError
from harness.events import KINDS, Note
from harness.message import Call, Choice, Failure, Message, TokenCounts
from harness.rule import Rule

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- Written by tools/generate_docs.py: do not edit. -->"
SOURCE = re.compile(r" \(DESIGN[^)]*\)")  # where a docstring takes its rule from
WIDTH = 110  # columns of a verb's help

HEAD = """\
# Rules

<!-- Written by tools/generate_docs.py: do not edit. -->

What `harness lint`, `diff` and `gate` can say about a stream. `harness rules CODE` explains one rule. Codes are stable:
they stand in acceptances (`harness accept`).

**Severity.** *cosmetic* passes. *negotiable* fails a gate until it is accepted with a reason. *fatal* fails, and can be
accepted up to a day only. A stream can make a rule milder or worse than it stands here: *may be* says when, the finding
which it is. `<detail>` and the like are filled in from the bytes.

**Kind.**
"""


def rules() -> Iterator[str]:
    """docs/rules.md."""
    yield HEAD.rstrip("\n")
    for side, meaning in SIDES.items():
        yield f"- *{side}*: {meaning}."
    rules = sorted(CATALOGUE.values(), key=_order)
    for area, members in groupby(rules, key=_area):
        yield f"\n## {area}\n\n| code | severity | may be | says | remedy | kind |\n|---|---|---|---|---|---|"
        for rule in members:
            found = as_object(rule)
            cells = [f"`{rule.code}`", str(rule.severity), varies(rule), str(found["says"]), rule.remedy, rule.side]
            yield f"| {' | '.join(map(_cell, cells))} |"
    yield "\n## One cause, one finding\n\nA rule on the left explains those on the right: only the first is told.\n"
    yield "| rule | explains |\n|---|---|"
    for cause in sorted(EXPLAINS):
        yield f"| `{cause}` | {', '.join(f'`{pattern}`' for pattern in EXPLAINS[cause].split())} |"


CLI_HEAD = f"""\
# The command line

{MARK}

`harness VERB --help` prints the same. Results go to stdout, progress and failures to stderr; with `--json`, stdout is
JSON ([schemas](README.md#json)). Exit codes: [exit-codes.md](exit-codes.md). `sse-harness` is the same command.

**How much is told.** `-q`, `--quiet` leaves results and failures: no progress, no warnings, no advice. `-v`,
`--verbose` adds on stderr, terminal or not, each request, attempt and answer with the seconds since the start; no key,
header or body is among it. Both may stand before or after the verb. Without them, progress is shown on a terminal only.

**Colours.** On a terminal, fatal findings are red, negotiable ones yellow, outcomes bold; a pipe or file gets none.
`NO_COLOR` turns them off, `FORCE_COLOR` or `CLICOLOR_FORCE` turns them on for pipes too, `CLICOLOR=0` and `TERM=dumb`
turn them off. `NO_COLOR` wins. JSON and written reports never have any.

**Completion.** For verbs, options, providers, shapes, rules, faults and dialects:

```sh
eval "$(harness completion bash)"     # in ~/.bashrc; bash 4.4 or newer
eval "$(harness completion zsh)"      # in ~/.zshrc, after compinit
harness completion fish > ~/.config/fish/completions/harness.fish
```"""


def cli() -> Iterator[str]:
    """docs/cli.md."""
    yield CLI_HEAD
    yield "\n| verb | what it does |\n|---|---|"
    for name, says in COMMANDS.items():
        yield f"| [`{name}`](#harness-{name}) | {says} |"
    with click.Context(command_line, info_name="harness") as parent:
        for name in COMMANDS:
            verb = command_line.get_command(parent, name)
            assert verb is not None
            with click.Context(
                verb, info_name=name, parent=parent, terminal_width=WIDTH, help_option_names=["-h", "--help"]
            ) as ctx:
                yield f"\n## harness {name}\n\n```text\n{verb.get_help(ctx)}\n```"


CODES = {
    Exit.CONFORMS: "Done. `gate`, `diff`, `check`: conforms. `record`: all takes are good. `lint`: no finding is as "
    "bad as `--fail-on`.",
    Exit.DIFFERS: "A verdict, no failure of the tool: something differs, or a finding is as bad as `--fail-on`.",
    Exit.USAGE: "The command line, a file or providers.yaml cannot be used. The line on stderr names place and remedy.",
    Exit.NOT_MEASURED: "Nothing differs, but something could not be measured: no connection, a key refused, too many "
    "requests, the model answered without the tool. Neither pass nor fail; try again. `record`: a take was not good.",
    Exit.BUG: "A bug in this package. `HARNESS_TRACEBACK=1` shows where; please report it.",
    Exit.INTERRUPTED: "Ctrl-C or SIGTERM. The line on stderr names what had come and was kept. `replay` and `proxy` "
    "end with 0 at SIGTERM, which is how they are told to stop.",
}

CODES_HEAD = f"""\
# Exit codes

{MARK}

The same for every verb. A pipeline should tell 1 from 3: the first says no, the second says that nobody knows
([ci.md](ci.md)). A reader that closes the pipe early (`| head`) is no failure: 0.

| code | name | meaning |
|---|---|---|"""


EXCEPTIONS_HEAD = """
## From Python

What cannot be done is an exception of `harness.errors`; a difference is a finding, never an exception. Each carries its
code as `exit_code`.

| exception | is a | code | meaning |
|---|---|---|---|"""


def exit_codes() -> Iterator[str]:
    """docs/exit-codes.md."""
    yield CODES_HEAD
    for code in Exit:
        yield f"| {int(code)} | {_words(code.name)} | {CODES[code]} |"
    yield EXCEPTIONS_HEAD
    for cls in _descendants(HarnessError):
        base = cls.__base__.__name__ if cls.__base__ else ""
        yield f"| `{cls.__name__}` | `{base}` | {int(cls.exit_code)} | {_cell(_first(cls))} |"


def _descendants(cls: type[HarnessError]) -> Iterator[type[HarnessError]]:
    """The class and, depth first, those below it that its own module defines."""
    yield cls
    for below in cls.__subclasses__():
        if below.__module__ == cls.__module__:
            yield from _descendants(below)


EVENTS_HEAD = f"""\
# Events and messages

{MARK}

A dialect reads a body into events; events add up to a message. Both are the same for every provider.

```sh
harness show FILE --as events --json    # {{"file", "dialect", "events", "notes"}}: schema/events.schema.json
harness show FILE --json                # the message: schema/message.schema.json
```

## Events

Each event is an object with `kind`, and with `at` and `length`: `length` bytes of the body from byte `at` on. What no
dialect knows is an event of kind `unknown`, what cannot be decoded is a note: nothing is dropped silently. Schema:
[events.schema.json](schema/events.schema.json).

| kind | fields besides `at`, `length` | what it is |
|---|---|---|"""

NOTES_HEAD = """
## Notes

What is odd about the wire and no event. A note's `code` is that of a [rule](rules.md).

| field | type |
|---|---|"""

MESSAGE_HEAD = """
## Message

Pieces are joined, never trimmed, deduplicated or rewritten; arguments are never repaired. An id is the first that was
sent and is not empty, else `""`: it is never made up. Choice 0 stands at the top; `choices` holds all, 0 included.
`harness show` adds `file`, the path as it was given. Schema: [message.schema.json](schema/message.schema.json).

`terminal` says how the stream ended: `error` (an error was read), `done` (its own end marker), `finish` (a finish
reason and no marker), `truncated` (neither)."""


PARTS: dict[str, type[msgspec.Struct]] = {
    "A message": Message, "An entry of `choices`": Choice, "An entry of `tool_calls`": Call, "`usage`": TokenCounts,
    "`error`": Failure,
}  # fmt: skip


def events() -> Iterator[str]:
    """docs/events.md."""
    yield EVENTS_HEAD
    for kind, cls in KINDS.items():
        names = [field.name for field in msgspec.structs.fields(cls) if field.name not in ("at", "length")]
        yield f"| `{kind}` | {', '.join(f'`{name}`' for name in names)} | {_cell(_whole(cls))} |"
    yield NOTES_HEAD
    yield from _fields(Note)
    yield MESSAGE_HEAD
    for name, part in PARTS.items():
        yield f"\n**{name}.** {_whole(part)}\n\n| field | type |\n|---|---|"
        yield from _fields(part)


def _fields(cls: type[msgspec.Struct]) -> Iterator[str]:
    for field in msgspec.structs.fields(cls):
        yield f"| `{field.name}` | {_type(field.type)} |"


def _type(kind: Any) -> str:
    """A type as JSON has it."""
    names = {str: "string", int: "number", bool: "true or false", Any: "any", type(None): "null"}
    if kind in names:
        return names[kind]
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return "object"
    parts = [_type(part) for part in kind.__args__]
    return f"list of {parts[0]}s" if getattr(kind, "__origin__", None) is list else " or ".join(parts)


def _whole(cls: type) -> str:
    return " ".join((inspect.getdoc(cls) or "").split())


def _first(cls: type) -> str:
    return SOURCE.sub("", (inspect.getdoc(cls) or "").partition("\n")[0])


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


def _area(rule: Rule) -> str:
    return rule.code.partition(".")[0]


def _order(rule: Rule) -> int:
    """Areas in the order of the catalogue; within one, the catalogue's order stays."""
    areas = list(dict.fromkeys(map(_area, CATALOGUE.values())))
    return areas.index(_area(rule))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "rules.md": rules, "cli.md": cli, "exit-codes.md": exit_codes, "events.md": events,
    "python.md": python,
}  # fmt: skip


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is stale")
    arguments = parser.parse_args()
    for name, lines in PAGES.items():
        path, text = DOCS / name, "\n".join(lines()) + "\n"
        if not arguments.check:
            path.write_text(text, "utf-8", newline="\n")
        elif not path.is_file() or path.read_text("utf-8") != text:
            sys.exit(f"{path}: stale; write it anew with: python tools/generate_docs.py")


if __name__ == "__main__":
    main()
