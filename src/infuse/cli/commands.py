"""The commands of the program: each is imported when it is called, and help lists them by their
docstrings alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from infuse.errors import did_you_mean

COMMANDS = {
    "show": "show",
    "check": "check",
    "doctor": "doctor",
    "convert": "check",
    "extract": "extract",
    "optimize": "optimize",
    "why": "why",
    "compile": "compile",
    "bind": "bind",
    "targets": "targets",
    "prebuilt": "prebuilt",
    "bundle": "bundle",
    "generate": "language",
    "chat": "language",
    "compress": "compress",
    "run": "run",
    "bench": "bench",
    "compare": "compare",
    "profile": "profile",
    "inspect": "inspect",
    "view": "view",
    "cache": "cache",
    "serve": "serve",
    "load": "load",
    "rollout": "rollout",
    "rollback": "rollout",
}
"""The module of this package that has the function of a command, which has the command's name."""
OTHER_WORDS = {
    "benchmark": "bench",
    "bindings": "bind",
    "build": "compile",
    "diff": "compare",
    "export": "convert",
    "explain": "why",
    "graph": "view",
    "infer": "run",
    "info": "show",
    "loadtest": "load",
    "perf": "bench",
    "platforms": "targets",
    "plot": "view",
    "predict": "run",
    "prune": "compress",
    "quantize": "compress",
    "server": "serve",
    "simplify": "optimize",
    "test": "check",
    "time": "bench",
    "transpile": "convert",
    "validate": "check",
    "visualize": "view",
}
"""What others call our commands."""
_LISTING = "infuse.listing"


def function_of(name: str) -> Callable[..., None]:
    """The function of a command."""
    function: Callable[..., None] = getattr(import_module(f"infuse.cli.{COMMANDS[name]}"), name)
    return function


def summary_of(name: str) -> str:
    """What a command does: the first paragraph of its docstring, read off the source."""
    source = Path(__file__).with_name(f"{COMMANDS[name]}.py").read_text("utf-8")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return " ".join((ast.get_docstring(statement) or "").split("\n\n")[0].split())
    raise LookupError(name)


class Commands(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order in which they are told."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or its name and summary alone while all are listed."""
        if cmd_name not in COMMANDS:
            return None
        if ctx.meta.get(_LISTING):
            return TyperCommand(cmd_name, help=summary_of(cmd_name))
        program = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        program.command(cmd_name)(function_of(cmd_name))
        return typer.main.get_command(program)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; a name that is none of ours is answered with the nearest."""
        name = args[0] if args else ""
        if args and name not in COMMANDS and not name.startswith("-"):
            other = OTHER_WORDS.get(name.lower().replace("ise", "ize"))
            guess = f"did you mean {other!r}?" if other else did_you_mean(name, COMMANDS)
            advice = guess[:1].upper() + guess[1:] or "infuse --help lists them."
            ctx.fail(f"there is no command {name!r}. {advice}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the program, for which no command is imported."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What a shell offers, for which no command is imported."""
        ctx.meta[_LISTING] = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            del ctx.meta[_LISTING]
