"""Which functions networks call that a library of prebuilt kernels lacks: by names alone, so that
nothing is compiled and every target is tried on every machine.

`python -m benchmarks.prebuilt_functions --kinds operators,random --targets x86-64-v3 --threads 1,8`

Networks are the operators of the table with all samples, random networks, the networks of the zoo
(`make zoo`), and those of all families (which PyTorch exports). What is listed is refused by
`compile="never"`; the program ends with 1 where anything is.
"""

import itertools
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import infuse
from benchmarks import machine, options, terminal
from benchmarks.inputs import default_zoo
from infuse.build.collecting import collected
from infuse.build.compile import Compilation
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.testing.blocks import block_graphs
from infuse.testing.corpus import operator_graphs
from tests.native.op_cases import NOT_NATIVE, OPS, cases, name
from tests.support.generators.networks import random_network

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64")
THREADS = (1, 2, 4, 8, 16)
NETWORKS = 1000
SHOWN = 3
Makers = Iterable[tuple[str, Callable[[], Graph]]]


def whole_set(target: str) -> ClosedFunctions:
    """The functions of a library without models of its own."""
    return collected(Target.resolve(target), operator_graphs(), block_graphs())


def lacking(graph: Graph, target: str, threads: int, names: Collection[str]) -> set[str]:
    """What a graph calls besides these names; a refusal is one more name."""
    emitter = emitter_of(Target.resolve(target).machine)
    found: set[str] = set()
    for part in Compilation(graph, CompileOptions(target, threads), closed=True).stages().parts:
        if isinstance(part, Graph):
            continue
        try:
            needed = emitter.write_program(*part, names).functions.names
        except InfuseError as error:
            found.add(f"refused: {error.what}")
        else:
            found |= {*needed} - {*names}
    return found


def operators() -> Makers:
    """All rows of the table."""
    for op in OPS:
        if op.name not in NOT_NATIVE:
            for number, case in enumerate(cases(op, full=True)):
                yield f"{name(op)}#{number}", case.alone


def networks() -> Makers:
    """Random networks, optimized."""
    for seed in range(NETWORKS):
        yield f"random/{seed}", lambda seed=seed: infuse.optimize(random_network(seed).graph)


def zoo() -> Makers:
    """The files of the zoo."""
    for path in sorted(default_zoo().glob("*.onnx")):
        yield path.stem, lambda path=path: infuse.optimize(infuse.load(path))


def families() -> Makers:
    """The networks of all families that the tracing exporter writes."""
    from tests.models.family_models import FAMILIES

    for family, make in FAMILIES.items():
        yield f"family/{family}", partial(_exported, make)


def _exported(make: Callable[[], Any]) -> Graph:
    from tests.models.family_network import LEGACY

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        make().prepare().export(LEGACY, path)
        return infuse.optimize(infuse.load(path))


KINDS: Mapping[str, Callable[[], Makers]] = {
    "operators": operators,
    "random": networks,
    "zoo": zoo,
    "families": families,
}


def measure(
    kinds: Sequence[str], targets: Sequence[str], threads: Sequence[int]
) -> dict[str, dict[str, list[str]]]:
    """By target what the set lacks, and the networks that call it."""
    names = {target: whole_set(target).names for target in targets}
    lacked: dict[str, dict[str, list[str]]] = {t: defaultdict(list) for t in targets}
    for kind in kinds:
        for label, make in terminal.watched(KINDS[kind](), lambda each: each[0]):
            try:
                graph = make()
            except Exception as error:  # exporters raise anything
                print(f"{label} is left out: {error}"[:200], file=sys.stderr)
                continue
            for target, count in itertools.product(targets, threads):
                for function in lacking(graph, target, count, names[target]):
                    lacked[target][function].append(f"{label}, {count} threads")
    return {target: dict(found) for target, found in lacked.items()}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Count the functions that a library of prebuilt kernels lacks.")
    parser.add_argument("--kinds", type=options.words, default=["operators", "random", "zoo"])
    parser.add_argument("--targets", type=options.words, default=list(TARGETS))
    parser.add_argument("--threads", type=options.numbers, default=list(THREADS))
    given = parser.parse_args(arguments)
    if unknown := {*given.kinds} - {*KINDS}:
        parser.error(f"no kinds {', '.join(unknown)}; there are {', '.join(KINDS)}")
    warnings.simplefilter("ignore")
    lacked = measure(given.kinds, given.targets, given.threads)
    for target, found in lacked.items():
        print(f"{target}: {len(found)} functions")
        for function, where in sorted(found.items()):
            print(f"  {function}: {len(where)}: {'; '.join(where[:SHOWN])}")
    if given.json:
        machine.save(given.json, {"lacked": lacked})
    return int(any(lacked.values()))


if __name__ == "__main__":
    sys.exit(main())
