"""The graphs that readers make of the models of tests, in a form that two commits share where they
read the same.

    python -m pytest -p tests.graphs --graphs FOLDER tests/models/test_keras.py   # records
    python -m tests.graphs OLD NEW                                                # compares

In that form values are numbered in the order of a walk from the outputs, nodes that no output needs
are left out, and constants stand for their elements, wherever and how often they are stored. For a
model that is refused there is the error's text. Tests whose weights are random, without a seed,
differ from themselves: record a commit twice to know them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.digest import difference
from infuse.errors import InfuseError
from infuse.frontends.formats import FORMATS
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.nesting import room_for
from infuse.ir.printer import changed_attributes
from infuse.ir.text import attribute_text, content_hash, type_text

OTHERS = (
    "frontends.onnx.load",
    "frontends.sklearn.load",
    "frontends.sklearn.booster_graph",
    "frontends.torch.from_torch",
    "frontends.torch.from_fx",
    "frontends.jax.from_jax",
    "tracing.arrays.trace",
)
"""Readers besides those of the formats."""
LONGEST = 40_000
"""Characters of a text that are recorded beside its hash."""
SHOWN = 5
"""Differences that are printed."""
TEMPORARY = re.compile(r"/\S*/pytest-\d+/(popen-gw\d+/)?")


def canonical(graph: Graph) -> str:
    """The text of a graph that does not depend on names and on the order in which it was made."""
    with room_for(graph):
        return "\n".join(_Text(graph).lines)


class _Text:
    def __init__(self, graph: Graph) -> None:
        self.lines: list[str] = []
        self._numbers: dict[Value, str] = {}
        self._graph(graph, "")

    def _graph(self, graph: Graph, indent: str) -> None:
        for value in graph.inputs:
            line = f"{indent}{self._named(value)} {value.name!r}"
            if value.default is not None:
                line += f" = {content_hash(value.default, value.dtype)}"
            self.lines.append(line)
        for node in _needed(graph):
            self._node(node, indent)
        for name, value in zip(graph.output_names, graph.outputs):
            self.lines.append(f"{indent}{name!r} = {self._read(value)}")

    def _node(self, node: Node, indent: str) -> None:
        operands = ["_" if value is None else self._read(value) for value in node.inputs]
        attributes = [f"{k}={attribute_text(v)}" for k, v in changed_attributes(node).items()]
        results = ", ".join(self._named(value) for value in node.outputs)
        call = f"{node.op.domain}::{node.kind}({', '.join([*operands, *attributes])})"
        self.lines.append(f"{indent}{results} = {call}")
        for name, body in node.subgraphs.items():
            self.lines.append(f"{indent}  {name}:")
            self._graph(body, f"{indent}    ")

    def _named(self, value: Value) -> str:
        self._numbers[value] = f"%{len(self._numbers)}"
        return f"{self._numbers[value]}: {type_text(value.type)}"

    def _read(self, value: Value) -> str:
        if value.const is None:
            return self._numbers[value]
        if value.const.size == 1 and value.const.dtype.kind in "biuf":
            return f"{type_text(value.type)}{{{value.const.item()!r}}}"
        return f"{type_text(value.type)}#{content_hash(value.const, value.dtype)}"


def _needed(graph: Graph) -> Iterator[Node]:
    """The nodes that outputs need, each behind those that it needs."""
    begun: set[Node] = set()
    pending = [(node, False) for node in _makers(graph, reversed(graph.outputs))]
    while pending:
        node, ready = pending.pop()
        if ready:
            yield node
        elif node not in begun:
            begun.add(node)
            pending.append((node, True))
            operands = [*node.operands(), *captured(node)]
            pending += [(other, False) for other in _makers(graph, reversed(operands))]


def _makers(graph: Graph, values: Iterator[Value]) -> Iterator[Node]:
    for value in values:
        if value.producer is not None and value.producer.graph is graph:
            yield value.producer


# -- recording -------------------------------------------------------------------------------------


class Recorder:
    """Writes a line of JSON for each model that a test reads: which, a hash, and the text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._test = ""
        self._counts: Counter[str] = Counter()
        self._depth = 0
        folder.mkdir(parents=True, exist_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._test = item.nodeid

    def pytest_collection_finish(self) -> None:
        if "torch" in sys.modules:
            self.wrap("benchmarks.torch_calls", "graph_of", lambda result: result[0])

    def wrap(self, module: str, name: str, graph_of: Callable[[Any], Graph]) -> None:
        """Record what a function of a module gives."""
        home = import_module(module)
        reader = getattr(home, name)

        @wraps(reader)
        def recorded(*arguments: Any, **named: Any) -> Any:
            self._depth += 1
            try:
                result = reader(*arguments, **named)
            except InfuseError as error:
                if self._depth == 1:
                    self._write(f"refused: {TEMPORARY.sub('', str(error))}")
                raise
            else:
                if self._depth == 1:
                    self._write(canonical(graph_of(result)))
            finally:
                self._depth -= 1
            return result

        setattr(home, name, recorded)

    def _write(self, text: str) -> None:
        file = self.folder / (Path(self._test.partition("::")[0]).stem + ".jsonl")
        key = f"{self._test}#{self._counts[self._test]}"
        self._counts[self._test] += 1
        digest = hashlib.sha256(text.encode()).hexdigest()
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([key, digest, text[:LONGEST]]) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--graphs", type=Path, help="the folder in which graphs are recorded")


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--graphs"):
        recorder = Recorder(folder)
        config.pluginmanager.register(recorder)
        readers = [f"frontends.{format.reader}" for format in FORMATS if format.name != "Infuse"]
        for reader in dict.fromkeys([*readers, *OTHERS]):
            module, _, name = reader.rpartition(".")
            recorder.wrap(f"infuse.{module}", name, lambda graph: graph)


# -- comparing -------------------------------------------------------------------------------------


def read(folder: Path) -> dict[str, tuple[str, str]]:
    """Hash and text of each model of a record; the last ones, of tests that ran more than once."""
    lines = (
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    )
    return {key: (digest, text) for key, digest, text in lines}


def compare(old: Path, new: Path) -> int:
    """Print how many models two records have as the same, and what differs first in the first of
    the others. Returns the exit status.
    """
    before, after = read(old), read(new)
    common = [key for key in after if key in before]
    changed = [key for key in common if before[key][0] != after[key][0]]
    alone = f"{len(before) - len(common)} only before, {len(after) - len(common)} only after"
    print(f"{len(common) - len(changed)} of {len(common)} are equal; {alone}")
    for key in changed[:SHOWN]:
        print(f"\n== {key}", *difference(before[key][1], after[key][1]), sep="\n")
    if len(changed) > SHOWN:
        print("\nothers:", *changed[SHOWN:], sep="\n  ")
    return int(bool(changed))


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.graphs")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    return compare(options.old, options.new)


if __name__ == "__main__":
    sys.exit(main())
