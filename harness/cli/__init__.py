"""The command line: one module per verb, loaded when it is asked for. Contract: DESIGN, "CLI"."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING

import click

from harness import __version__
from harness.cli import manners, names
from harness.errors import Exit, HarnessError, suggestion

if TYPE_CHECKING:
    from types import FrameType

COMMANDS = {
    "record": "record an endpoint's streams as fixtures",
    "gate": "say whether CANDIDATE can take over from BASELINE",
    "plan": "show the requests that would be sent, and what they may cost",
    "diff": "compare two recorded streams",
    "lint": "say what is odd about recorded streams",
    "show": "show what recorded streams say",
    "expect": "verify or write what fixtures are expected to say",
    "check": "check an accumulator against recorded streams",
    "matrix": "show which clients read which streams right",
    "replay": "serve fixtures on this machine, byte for byte",
    "proxy": "stand before an endpoint and keep the streams that pass",
    "rules": "explain the rules",
    "import": "make a fixture of a cassette, a HAR file or curl's output",
    "accept": "turn a report's findings into acceptances",
    "init": "set up a project in this folder",
    "doctor": "say what is missing, and what to do about it",
    "demo": "see it work: no key, no network",
    "completion": "print what makes a shell complete verbs, options and names",
}
# A path that the user gave, or folder above it, that the system does not let us look at: no bug in us.
UNREACHABLE = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP)


class Verbs(click.Group):
    """Finds each verb's module by its name, so that `--help` loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of a first day's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command."""
        if cmd_name not in COMMANDS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name  # import is a keyword
        found: click.Command = getattr(import_module(f"harness.cli.{module}"), module)
        return manners.with_manners(found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        """The verb's command; a verb that does not exist fails with the nearest one's name."""
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            ctx.fail(f"No such verb {name!r}{suggestion(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, without loading the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit: 0 conforms, 1 differs, 2 usage or configuration, 3 not measured, 4 bug in us, 130 interrupted.",
)
@click.version_option(__version__, prog_name="harness")
@click.pass_context
def harness(ctx: click.Context) -> None:
    """Record raw SSE streams of LLM endpoints, and say whether one can take over from another.

    \b
    harness demo
    harness record openai
    harness gate openai candidate
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.fail("name a verb")


manners.with_manners(harness)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit. A failure is one line on stderr, and its exit code."""
    # Only where nobody else has decided what SIGTERM does; and only the main thread may decide.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _terminated(number: int, frame: FrameType | None) -> None:
    """Ends a run as Ctrl-C does, so that nothing is left behind: children of a target, partial recordings."""
    if callable(signal.getsignal(signal.SIGINT)):  # asyncio's, while it runs
        signal.raise_signal(signal.SIGINT)
    else:  # Ctrl-C is ignored, as in the background of a script
        raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    _open_streams()
    manners.begin()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for program in names.PROGRAMS:
        asked = os.environ.get(names.variable_of(program))
        if asked:
            from harness.cli.completion import answer

            return answer(harness, program, asked)
    try:
        # Not harness.main(): it writes a line of its own at Ctrl-C, and takes a closed pipe for a failure.
        with harness.make_context("harness", list(arguments)) as ctx:
            harness.invoke(ctx)
        sys.stdout.flush()
        return _ended(Exit.CONFORMS)
    except click.exceptions.Exit as exc:
        return _ended(exc.exit_code)
    except click.UsageError as exc:
        where = exc.ctx.command_path if exc.ctx is not None else "harness"
        return _fail(f"{exc.format_message()} (see `{where} --help`)", Exit.USAGE, where)
    except click.ClickException as exc:
        return _fail(exc.format_message(), Exit.USAGE)
    except (KeyboardInterrupt, click.Abort) as exc:
        return _fail("; ".join(["interrupted", *getattr(exc, "__notes__", ())]), Exit.INTERRUPTED)
    except HarnessError as exc:
        return _fail(str(exc), exc.exit_code)
    except OSError as exc:
        # The reader of our results has gone, which is no failure. Any other pipe is for those who write to it.
        problem = _output_problem() if exc.filename is None else None
        if problem is None and exc.filename is not None and exc.errno in UNREACHABLE:
            return _fail(f"{exc.filename}: cannot be looked at: {exc.strerror}", Exit.USAGE)
        if problem is None:
            return _fail("the current folder is gone; change into one", Exit.USAGE) if _nowhere() else _bug(exc)
        if isinstance(problem, BrokenPipeError):
            return Exit.CONFORMS
        return _fail(f"standard output cannot be written: {problem.strerror}; check the disk or device", Exit.USAGE)
    except MemoryError:
        return _fail("there is not enough memory; give less at once, or --jobs 1 where there is one", Exit.USAGE)
    except Exception as exc:
        return _bug(exc)


def _open_streams() -> None:
    """Give those that were closed by whoever started us a place: else the next file opened takes their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (stays open to the end)


def _nowhere() -> bool:
    """Whether the folder we were started in was deleted meanwhile, or may not be looked at."""
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _output_problem() -> OSError | None:
    """Why stdout cannot be written, if so; then what is still buffered for it goes nowhere when we exit."""
    try:
        sys.stdout.write("\n")  # flushing alone says nothing: what could not be written is no longer there
        sys.stdout.flush()
    except OSError as exc:
        from harness.cli.common import drop_output

        drop_output()
        return exc
    return None


def _ended(code: int) -> int:
    """The code, told to those who want to know all."""
    if manners.told() is manners.Told.VERBOSE:
        from harness.cli.common import progress

        progress(f"exit {int(code)}")
    return code


def _bug(exc: Exception) -> int:
    if os.environ.get("HARNESS_TRACEBACK"):
        raise exc
    return _fail(f"bug: {type(exc).__name__}: {exc} (please report it; HARNESS_TRACEBACK=1 shows where)", Exit.BUG)


def _fail(text: str, code: int, where: str = "harness") -> int:
    from harness.cli.common import complain

    complain(text, where)
    return _ended(int(code))
