"""What the compiler prints for many models, a line of hash each: two commits that differ in nothing
that is compiled have the same lines.

    python -m benchmarks.digest compare origin/main              # the working tree beside a commit
    python -m benchmarks.digest compare v0.1 v0.2 --only random  # two commits
    python -m benchmarks.digest write FILE                       # the lines of this tree
    python -m benchmarks.digest text operators/Add#0 x86-64-v3 fp32

A line stands for the generated sources and the metadata of one model on one target in one
precision, the fingerprint of its packed weights among them, or for the text with which it is
refused. Models are the operators of the table with their samples, random networks, and the networks
of the zoo (`make zoo`); only the last two are optimized first. Nothing is compiled or run, so every
target is tried on every machine. `compare` exits with 1 where lines differ, and prints the first
difference of the first of them; each commit is read by its own copy of this file.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import infuse
from benchmarks.architectures import NAMES, files
from benchmarks.inputs import default_zoo
from benchmarks.terminal import watched
from infuse.build.compile import Compilation
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.lowering.metadata import metadata
from infuse.lowering.precisions import Precision
from infuse.options import CompileOptions
from infuse.targets.cpu.emit.source import print_sources
from tests.native.op_cases import OPS, cases, name
from tests.support.emulation import NARROW_DOTS, NEWEST
from tests.support.generators.networks import random_network

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("operators", "random", "zoo")
TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", NARROW_DOTS, NEWEST, "aarch64")
PRECISIONS = ("fp32", "bf16", "fp16")
CHOICES = {"only": KINDS, "targets": TARGETS, "precisions": PRECISIONS}
NETWORKS = 300
THREADS = 2
CONTEXT, SHOWN = 3, 60
"""Lines around a difference, and of it at most."""


@dataclass(frozen=True)
class Selection:
    """Which models, on which targets, in which precisions."""

    kinds: Sequence[str] = KINDS
    targets: Sequence[str] = TARGETS
    precisions: Sequence[str] = PRECISIONS
    networks: int = NETWORKS

    @classmethod
    def of(cls, options: argparse.Namespace) -> Selection:
        return cls(options.only, options.targets, options.precisions, options.networks)

    def arguments(self) -> list[str]:
        """The selection as `of` reads it from a command."""
        lists = {"only": self.kinds, "targets": self.targets, "precisions": self.precisions}
        texts = [f"--{option}={','.join(chosen)}" for option, chosen in lists.items()]
        return [*texts, f"--networks={self.networks}"]

    def models(self) -> dict[str, Callable[[], Graph]]:
        """Graphs to lower, by name."""
        makers = {"operators": _operators, "random": self._random, "zoo": _zoo}
        models: dict[str, Callable[[], Graph]] = {}
        for kind in self.kinds:
            models |= makers[kind]()
        return models

    def _random(self) -> dict[str, Callable[[], Graph]]:
        return {
            f"random/{seed}": lambda seed=seed: infuse.optimize(random_network(seed).graph)
            for seed in range(self.networks)
        }


def _operators() -> dict[str, Callable[[], Graph]]:
    return {
        f"operators/{name(op)}#{number}": case.alone
        for op in OPS
        for number, case in enumerate(cases(op, full=False))
    }


def _zoo() -> dict[str, Callable[[], Graph]]:
    paths = {file: default_zoo() / f"{file}.onnx" for each in NAMES for file in files(each)}
    if missing := [file for file, path in paths.items() if not path.exists()]:
        raise SystemExit(f"not in {default_zoo()}: {', '.join(missing)}; run `make zoo` first")
    return {
        f"zoo/{file}": lambda path=path: infuse.optimize(infuse.load(path))
        for file, path in paths.items()
    }


def printed(graph: Graph, target: str, precision: Precision) -> str:
    """Everything that is printed of a graph, or why it is refused."""
    try:
        stages = Compilation(graph, CompileOptions(target, THREADS, precision)).stages()
    except InfuseError as error:
        return f"refused: {error}\n"
    texts = []
    for part in stages.parts:
        if isinstance(part, Graph):
            texts.append(f"== run by the interpreter\n{print_graph(part)}")
            continue
        program, plan = part
        info = metadata(program, program.weights.fingerprint()) | {"precision": precision}
        info["kept_in_fp32"] = program.weights.float32_reasons
        sources = print_sources(program, plan, info, apart=True)
        texts += [f"== {file}\n{text}" for file, text in sorted(sources.items())]
        texts.append(f"== metadata\n{json.dumps(info, indent=1)}\n")
    return "\n".join(texts)


def lines(selection: Selection) -> Iterator[str]:
    """One line of every model on every target in every precision."""
    models = selection.models()
    for model in watched(models, lambda name: name):
        graph = models[model]()
        for target, precision in itertools.product(selection.targets, selection.precisions):
            text = printed(graph, target, precision)
            yield f"{hashlib.sha256(text.encode()).hexdigest()} {model} {target} {precision}"


def differing(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Names of what two lists of lines do not say the same of, in the order of the newer one, and
    then of what it lacks.
    """
    before, after = (
        {rest: key for key, _, rest in (line.partition(" ") for line in each)}
        for each in (old, new)
    )
    return [name for name in {**after, **before} if before.get(name) != after.get(name)]


def difference(old: str, new: str) -> list[str]:
    """The first lines in which two texts differ, with some around them."""
    sides = (text.splitlines() for text in (old, new))
    return list(
        itertools.islice(difflib.unified_diff(*sides, "old", "new", "", "", CONTEXT, ""), SHOWN)
    )


def compare(old: str, new: str | None, selection: Selection) -> int:
    """Hold two commits against each other; the working tree stands for the newer one where none is
    named. Returns the exit status.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infuse-digest-")))
        trees = [_tree(folder / "old", old, stack)]
        trees.append(ROOT if new is None else _tree(folder / "new", new, stack))
        outputs = [folder / "old.txt", folder / "new.txt"]
        running = [
            subprocess.Popen(
                _command("write", str(output), *selection.arguments()),
                cwd=tree,
                env=_environment(tree),
            )
            for tree, output in zip(trees, outputs)
        ]
        statuses = [process.wait() for process in running]
        if any(statuses):
            return 2
        before, after = (output.read_text("utf-8").splitlines() for output in outputs)
        changed = differing(before, after)
        print(f"{len(after)} lines; {len(changed)} differ")
        if not changed:
            return 0
        print(*changed[:20], *["…"] * (len(changed) > 20), sep="\n")
        texts = [
            subprocess.run(
                _command("text", *changed[0].split(" ")),
                cwd=tree,
                env=_environment(tree),
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            ).stdout
            for tree in trees
        ]
        print(*difference(*texts), sep="\n")
    return 1


def _tree(folder: Path, commit: str, stack: ExitStack) -> Path:
    git = ["git", "-C", str(ROOT), "worktree"]
    if subprocess.run(
        [*git, "add", "--quiet", "--detach", str(folder), commit], check=False
    ).returncode:
        raise SystemExit(f"{commit} is no commit that can be read")
    stack.callback(subprocess.run, [*git, "remove", "--force", str(folder)], check=False)
    if not (folder / "benchmarks" / Path(__file__).name).exists():
        raise SystemExit(f"{commit} has no benchmarks/digest.py: it is older than this comparison")
    return folder


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.digest", *arguments]


def _environment(tree: Path) -> dict[str, str]:
    """In which the modules of a tree come before those of the one that is installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    chosen = argparse.ArgumentParser(add_help=False)
    for option, known in CHOICES.items():
        chosen.add_argument(
            f"--{option}", type=lambda text: text.split(","), default=known, help=",".join(known)
        )
    chosen.add_argument("--networks", type=int, default=NETWORKS, help="how many random ones")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.digest")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("compare", parents=[chosen], help="two commits")
    verb.add_argument("old")
    verb.add_argument("new", nargs="?")
    verb = verbs.add_parser("write", parents=[chosen], help="the lines of this tree")
    verb.add_argument("file", type=Path)
    verb = verbs.add_parser("text", help="all that a line stands for")
    verb.add_argument("model")
    verb.add_argument("target")
    verb.add_argument("precision")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.verb == "text":
        kind, _, number = options.model.partition("/")
        networks = int(number) + 1 if kind == "random" else 0
        graph = Selection(kinds=(kind,), networks=networks).models()[options.model]()
        print(printed(graph, options.target, options.precision))
        return 0
    for option, known in CHOICES.items():
        if unknown := [each for each in getattr(options, option) if each not in known]:
            parser.error(f"--{option} has no {', '.join(unknown)}; one of: {', '.join(known)}")
    selection = Selection.of(options)
    if options.verb == "compare":
        return compare(options.old, options.new, selection)
    options.file.write_text("".join(f"{line}\n" for line in lines(selection)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
