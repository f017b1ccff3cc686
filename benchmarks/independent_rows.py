"""Of how many networks it is proven that the rows of a batch are independent, so that a server puts
requests together.

`python -m benchmarks.independent_rows --only 'transformers/*' [--exporter legacy] [--json FILE]`

The networks are those of `benchmarks.families`, exported with a free batch by one of PyTorch's
exporters, loaded and optimized. What the exporter cannot write, or writes with a fixed first
dimension, is counted by itself.
"""

import argparse
import fnmatch
import json
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

import infuse
from benchmarks.family_models import FAMILIES
from benchmarks.family_network import EXPORTERS
from infuse.errors import InfuseError
from infuse.ops.core.rows import independent_rows

PROVEN, OTHER, FIXED, UNWRITTEN = "proven", "not proven", "fixed", "not exported"


def outcome(name: str, exporter: str) -> tuple[str, str]:
    """What became of a network, and what prevents the proof or the export."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            FAMILIES[name]().prepare().export(exporter, path)
            graph = infuse.optimize(path)
        except InfuseError as error:
            return UNWRITTEN, str(error).splitlines()[0]
        except Exception as error:  # whatever the exporter raises
            return UNWRITTEN, f"{type(error).__name__}: {error}".splitlines()[0]
        report = independent_rows(graph)
    if report.independent:
        return PROVEN, ""
    return (OTHER if report.node else FIXED), report.reason


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="*", help="names, with wildcards")
    parser.add_argument("--exporter", default=EXPORTERS[0], choices=EXPORTERS)
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    arguments = parser.parse_args()
    console = Console()
    found: dict[str, tuple[str, str]] = {}
    for name in FAMILIES:
        if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.only.split(",")):
            found[name] = outcome(name, arguments.exporter)
            console.print(f"{name}: {': '.join(filter(None, found[name]))}", highlight=False)
    counts = Counter(kind for kind, _ in found.values())
    free = counts[PROVEN] + counts[OTHER]
    console.print(f"{counts[PROVEN]} of {free} with a free batch are proven; {dict(counts)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
