"""What the blocks of a page need and must give, and which of them nothing here runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import infuse
from tests.pages import checks, files
from tests.pages.blocks import blocks
from tests.pages.reader import Reader

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Page(NamedTuple):
    """What is particular to a page.

    `files`: written before, beside those of `WRITERS` that it names. `names`: defined for Python.
    `environment`: variables with paths in the page's folder. `instead`: parts of commands, and what
    replaces them where they would take minutes. `quiet`: filters of warnings that are no errors.
    `apart`: each block is for itself. `check` sees what the page has left behind.
    """

    files: Mapping[str, files.Writer] = NOTHING
    names: Mapping[str, Any] = NOTHING
    environment: Mapping[str, str] = NOTHING
    instead: Mapping[str, str] = NOTHING
    quiet: Sequence[str] = ()
    apart: bool = False
    check: Callable[[Reader], None] = lambda reader: None


ZEROS = np.zeros((1, 3, 224, 224), np.float32)
TUNED = {
    "--tune 5 ": "--tune 0.02 ",
    "--tune-epochs 8 --prune-rounds 3 --int8 --data train.npz --max-drop 0.5%": (
        "--tune-epochs 1 --prune-rounds 1 --int8 --data train.npz --max-drop 50%"
    ),
    "--tune-epochs 3": "--tune-epochs 1",
}
EXPORTERS = ("ignore:.*treespec:FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
"""What torch's exporters warn of in their own code."""
PLAIN = ("ignore:.*plain text:UserWarning",)
"""Tokens on a port without TLS, which a proxy may have."""
PAGES: Mapping[str, Page] = {
    "README.md": Page(files={"model.onnx": files.mobilenet}, check=checks.readme),
    "docs/api_processing.md": Page(check=checks.processing_reference),
    "docs/api_serving.md": Page(
        names={"array": ZEROS},
        files={"models/resnet50/1/model.onnx": files.classifier},
        check=checks.serving_reference,
    ),
    "docs/api_training.md": Page(check=checks.training_reference),
    "docs/compile.md": Page(
        environment={"INFUSE_PREBUILT": "prebuilt"},
        files={"prebuilt": files.prebuilt},
        instead={"prebuilt -o kernels": "prebuilt model.onnx --only-models -o kernels"},
        check=checks.prebuilt_answers,
    ),
    "docs/compression.md": Page(
        files={
            **dict.fromkeys(("model.onnx", "models/digits/1/model.onnx"), files.small_digits),
            **dict.fromkeys(("calibration.npz", "examples.npz"), files.few_images),
            **dict.fromkeys(("test.npz", "train.npz"), files.few_images),
            "labels.npy": files.few_labels,
        },
        instead=TUNED,
        check=checks.compression,
    ),
    "docs/container.md": Page(quiet=PLAIN),
    "docs/design.md": Page(
        files={"model.onnx": files.relu}, names={"infuse": infuse, "x": np.ones((1, 4), np.float32)}
    ),
    "docs/estimators.md": Page(check=checks.estimators),
    "docs/doctor.md": Page(quiet=EXPORTERS),
    "docs/frontends.md": Page(quiet=EXPORTERS, apart=True, check=checks.frontends),
    "docs/inspect_and_compare.md": Page(
        instead={"--top 5": "--top 5 --rounds 1 --seconds 0"}, check=checks.inspect_and_compare
    ),
    "docs/processing.md": Page(apart=True, check=checks.processing),
    "docs/migration/triton.md": Page(files={"models/resnet50/1/model.onnx": files.classifier}),
    "docs/rollout.md": Page(
        files={"models/resnet50/1/model.onnx": files.classifier}, check=checks.rollout
    ),
    "docs/serving.md": Page(
        files={
            "models/scores/1/model.onnx": files.rectifier,
            "models/bert.onnx": files.embedder,
            "models/.photos/labels.txt": files.names_of_classes,
            "real.npz": files.pictures,
        },
        instead={
            "infuse load": "infuse load --seconds 0.2 --warm-up 0.01",
            " --seconds 30": "",
        },
        quiet=PLAIN,
        check=checks.serving,
    ),
    "docs/bindings.md": Page(files={"digits.onnx": files.small_digits}, check=checks.bindings),
    "docs/c.md": Page(
        instead={
            "--target linux-x86_64-v3-musl": "",
            "python -m ziglang cc -target x86_64-linux-musl -static": "cc",
            "prebuilt --library -o kernels": (
                "prebuilt detector.onnx classifier.onnx --only-models --library -o kernels"
            ),
        },
        check=checks.c,
    ),
    "docs/bare.md": Page(files={"model.onnx": files.small_digits}),
    "docs/javascript.md": Page(files={"model.onnx": files.small_digits}, check=checks.javascript),
    "docs/training.md": Page(check=checks.training),
}

COPY = "tests/pure/test_contributing.py and tests/native/test_contributing.py apply it to a copy"
CONTAINER = "needs a container runtime; tests/serving/test_container.py holds the files"
OTHER_LANGUAGES = {
    "(cd app_go": "go",
    "(cd app_rust": "cargo",
    "cargo run": "cargo",
    "java/build.sh": "javac",
    "java -cp": "javac",
    "csharp/build.sh": "mcs",
    "mcs -r": "mcs",
}
"""What a command of docs/bindings.md begins with, and the tool that it needs."""


def _without_tools() -> dict[str, str]:
    """The commands of docs/bindings.md whose tools this machine lacks."""
    commands = [each for block in blocks("docs/bindings.md", "sh") for each in block.commands]
    return {
        command: f"{tool} is not here"
        for command in commands
        for start, tool in OTHER_LANGUAGES.items()
        if command.startswith(start) and shutil.which(tool) is None
    }


ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "CONTRIBUTING.md": dict.fromkeys(("python", "diff", "cpp"), COPY),
    "docs/bindings.md": _without_tools(),
    "docs/container.md": {"console": CONTAINER},
    "docs/javascript.md": {
        "python -m examples.web pages --classifier mobilenet_v2.onnx --labels labels.txt": (
            "needs a network of photos; tests/native/test_web_examples.py opens the pages"
        ),
    },
    "docs/extending.md": {
        "toml": "tests/pure/test_registry.py holds it against the package",
        "python": "registers an operator: a test of tests/pages/test_pages.py in its own process",
    },
    "docs/tutorial.md": {"python": "tests/native/test_tutorial.py runs it, and more with it"},
}
"""By page: languages, first lines of blocks or single commands, with the reason."""
