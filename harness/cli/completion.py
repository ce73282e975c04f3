"""harness completion, and what it completes: what is known here and now, never a failure."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from harness.cli.common import Choice, drop_output, say
from harness.cli.names import PROGRAMS, variable_of
from harness.errors import Exit

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete verbs, options, files, providers, shapes, rules and faults.

    \b
    eval "$(harness completion bash)"    # in ~/.bashrc; bash 4.4 or newer
    eval "$(harness completion zsh)"     # in ~/.zshrc, after compinit
    harness completion fish > ~/.config/fish/completions/harness.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    for program in PROGRAMS:
        say(found(ctx.find_root().command, {}, program, variable_of(program)).source().strip())


def answer(command: click.Command, program: str, asked: str) -> int:
    """Answer a shell that asks by the program's variable, `bash_complete` and the like. Returns the exit code.

    What goes wrong is told by that code alone: a user sees it in the middle of a command line.
    Source: click, "Shell Completion".
    """
    shell, _, instruction = asked.partition("_")
    found = get_completion_class(shell)
    if found is None or instruction not in ("source", "complete"):
        return Exit.USAGE
    shell_here = found(command, {}, program, variable_of(program))
    try:
        text = shell_here.source() if instruction == "source" else shell_here.complete()
        if text:
            say(text)
            sys.stdout.flush()
    except (KeyError, ValueError):  # the variable is set, but what a shell says with it is not there
        return Exit.USAGE
    except OSError:  # nobody listens any more
        drop_output()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.CONFORMS
