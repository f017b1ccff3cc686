"""Options that several benchmarks have: which models, which engines, how long, where the figures
go.
"""

import argparse
import fnmatch
from pathlib import Path

from benchmarks.engines import ENGINES
from benchmarks.inputs import default_zoo, parse_dims


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return made


def add_models(made: argparse.ArgumentParser, default: str = "*") -> None:
    """Which files of the zoo; `parse` finds them."""
    shown = "all" if default == "*" else default
    made.add_argument(
        "--models",
        type=words,
        default=words(default),
        metavar="GLOB[,…]",
        help=f"(default: {shown})",
    )
    made.add_argument(
        "--zoo", type=Path, default=default_zoo(), metavar="FOLDER", help="default: $INFUSE_ZOO"
    )


def add_dims(made: argparse.ArgumentParser) -> None:
    """Sizes of symbolic dimensions."""
    made.add_argument("--dims", type=parse_dims, default=parse_dims(""), metavar="NAME=N[,…]")


def add_against(made: argparse.ArgumentParser, default: str = "onnxruntime") -> None:
    """What Infuse is compared with."""
    known = ", ".join(ENGINES)
    made.add_argument(
        "--against", type=engines, default=engines(default), metavar="ENGINE[,…]", help=known
    )


def add_threads(made: argparse.ArgumentParser, default: str = "1,2") -> None:
    """With how many threads, one after the other."""
    shown = f"(default: {default})"
    made.add_argument(
        "--threads", type=numbers, default=numbers(default), metavar="N[,…]", help=shown
    )


def add_turns(made: argparse.ArgumentParser, rounds: int = 5, seconds: float = 0.5) -> None:
    """How often every engine has its turn, and for how long."""
    made.add_argument(
        "--rounds", type=int, default=rounds, help=f"turns of each (default: {rounds})"
    )
    made.add_argument(
        "--seconds", type=float, default=seconds, help=f"length of a turn (default: {seconds})"
    )


def parse(
    made: argparse.ArgumentParser, arguments: list[str] | None
) -> tuple[argparse.Namespace, list[Path]]:
    """The options, and the models that they select; the program ends where there is none."""
    options = made.parse_args(arguments)
    files = sorted(options.zoo.glob("*.onnx"))
    chosen = [
        path for path in files if any(fnmatch.fnmatch(path.stem, glob) for glob in options.models)
    ]
    if not chosen:
        made.error(f"no model {','.join(options.models)} in {options.zoo}: run `make zoo`")
    return options, chosen


def words(text: str) -> list[str]:
    """What stands between commas."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [int(word) for word in words(text)]


def engines(text: str) -> list[str]:
    """Engines by name."""
    if unknown := set(words(text)) - ENGINES.keys():
        known = ", ".join(ENGINES)
        raise argparse.ArgumentTypeError(
            f"no such engine: {', '.join(sorted(unknown))} (there are {known})"
        )
    return words(text)
