"""The program `infuse`: its commands, and what its exit status means.

| status | means                                                        |
|--------|--------------------------------------------------------------|
| 0      | done                                                         |
| 1      | an InfuseError; its message stands on standard error         |
| 2      | the command line is not one that is understood               |
| 130    | interrupted (Ctrl-C); nothing half-written is left behind    |
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, TextIO

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.commands import Commands
from infuse.errors import InfuseError

INTERRUPTED = 130

app = typer.Typer(
    name="infuse",
    cls=Commands,
    help="A trained model in, a verified and fast native library out.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"infuse {infuse.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A trained model in, a verified and fast native library out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (default: those of the process) and return its exit
    status.
    """
    words = None if arguments is None else list(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = _run(words)
            sys.stdout.flush()
        except KeyboardInterrupt:
            return INTERRUPTED
        except InfuseError as error:
            terminal.complain(str(error))
            return 1
        except (MemoryError, RecursionError) as error:
            short = (
                "there is not enough memory"
                if isinstance(error, MemoryError)
                else "the model nests too deeply"
            )
            terminal.complain(f"{short}: {error}" if str(error) else short)
            return 1
        except OSError as error:
            terminal.complain(f"{error.filename or 'output'}: {error.strerror or error}")
            return 1
    return status


def _run(arguments: list[str] | None) -> int:
    """What typer does with these arguments, as an exit status."""
    try:
        typer.main.get_command(app).main(arguments, prog_name="infuse")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    terminal.note(f"warning: {message}")
