"""Models as commands name them: a file to be compiled, or the folder of a compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import infuse
from infuse.cli import terminal
from infuse.cli.flags import flags_of
from infuse.errors import OptionError
from infuse.ir.graph import Array, Graph
from infuse.ops.core.feeds import index_limits
from infuse.options import CompileOptions, FormatOptions, Rules
from infuse.profiling.interface_inputs import complete
from infuse.runtime import Model
from infuse.runtime.folder import is_compiled


@dataclass(frozen=True)
class Opened:
    """A model that can run, and the graph that it was compiled from where that is known."""

    model: Model
    graph: Graph | None

    def feeds(
        self, arrays: Mapping[str, Array], sizes: Mapping[str, int], seed: int
    ) -> dict[str, Array]:
        """Arrays for all inputs but those with a default: these, and random ones."""
        limits = {} if self.graph is None else index_limits(self.graph)
        return complete(self.model.inputs, limits, arrays, sizes, seed)


def load_model(path: Path, options: FormatOptions | None) -> Graph:
    """The graph of a model file. OptionError, with the flag, for options of another format."""
    try:
        return infuse.load(path, options)
    except OptionError as error:
        if options is not None:
            error.rename(f"{type(options).__name__}(…)", " and ".join(flags_of(options)))
        raise


def require_file(path: Path, reason: str, hint: str = "name the model file") -> None:
    """OptionError where a model file is needed, and `path` is the folder of a compiled model."""
    if is_compiled(path):
        raise OptionError(f"{path} is a compiled model, and {reason}", hint=hint)


def note_search(graph: Graph) -> None:
    """Say what a search has found, where there was one."""
    if graph.report.search is not None:
        terminal.note(str(graph.report.search))


def refuse_for_compiled(path: Path, options: CompileOptions, rules: Rules) -> None:
    """OptionError where options are given that the folder of a compiled model cannot follow."""
    given = [*flags_of(options, ["threads"]), *flags_of(rules)]
    if given:
        raise OptionError(
            f"{path} is compiled already: {' and '.join(given)} cannot change it",
            hint="name the model file",
        )


def open_model(path: Path, options: CompileOptions, rules: Rules) -> Opened:
    """Load a compiled model's folder; compile a model file. OptionError where a folder is to be
    compiled otherwise.
    """
    if is_compiled(path):
        refuse_for_compiled(path, options, rules)
        return Opened(infuse.load_compiled(path, threads=options.threads), None)
    graph = infuse.load(path)
    with terminal.progress(path.name) as report:
        better = infuse.optimize(graph, rules, progress=report)
        model = infuse.compile(better, options, progress=report)
    note_search(better)
    return Opened(model, graph)
