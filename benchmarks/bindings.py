"""What a call costs in other languages: a model that adds two numbers, in C and by every package
whose tools this machine has, each program in turns.

`python -m benchmarks.bindings [--rounds 5] [--json FILE]`

Exit status 1 where a language needs more over C than its bar.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import onnx.parser

import infuse
from benchmarks import machine
from infuse.ir.graph import Graph
from infuse.options import BindOptions, CompileOptions

PROGRAMS: Final = Path(__file__).with_name("bindings_programs")
BARS: Final = {"cpp": 1000, "go": 2000, "rust": 1000, "java": 2000, "java-ffm": 2000, "node": 3000}
"""Nanoseconds over C."""
ADD: Final = """<ir_version: 9, opset_import: ["": 18]>
add (float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }"""


def _run(command: list[str], folder: Path, **environment: str) -> str:
    variables = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return done.stdout


def _graph() -> Graph:
    return infuse.load(onnx.parser.parse_model(ADD))


def _bound(root: Path, language: str) -> Path:
    folder = root / language
    if not folder.exists():
        infuse.bind(root / "model", folder, BindOptions(language, "add"))
    return folder


def c(root: Path) -> list[str]:
    """The C interface itself."""
    library = str(root / "model" / "libmodel.a")
    flags = ["-std=c11", "-O2", f"-I{root / 'model'}", str(PROGRAMS / "call.c"), library]
    _run(["cc", *flags, "-pthread", "-lm", "-o", "call_c"], root)
    return [str(root / "call_c")]


def cpp(root: Path) -> list[str]:
    """The header of C++."""
    folder = _bound(root, "cpp")
    flags = ["-std=c++17", "-O2", f"-I{folder}", str(PROGRAMS / "call.cpp"), "libmodel.a"]
    _run(["c++", *flags, "-pthread", "-lm", "-o", "call"], folder)
    return [str(folder / "call")]


def go(root: Path) -> list[str]:
    """The module of Go."""
    folder = _bound(root, "go")
    (folder / "call").mkdir()
    shutil.copy(PROGRAMS / "call.go", folder / "call" / "main.go")
    _run(["go", "build", "-buildvcs=false", "-o", "program", "./call"], folder)
    return [str(folder / "program")]


def rust(root: Path) -> list[str]:
    """The crate of Rust."""
    folder = _bound(root, "rust")
    shutil.copy(PROGRAMS / "call.rs", folder / "examples")
    command = ["cargo", "build", "-q", "--offline", "--release", "--example", "call"]
    _run(command, folder, CARGO_TARGET_DIR=str(folder / "target"))
    return [str(folder / "target" / "release" / "examples" / "call")]


def _java(root: Path, home: str, name: str) -> list[str]:
    folder = _bound(root, "java")
    tools = Path(home) / "bin" if home else Path()
    _run(["./build.sh"], folder, **({"JAVA_HOME": home} if home else {}))
    jar = folder.rename(root / name) / "add.jar"
    _run([str(tools / "javac"), "-cp", str(jar), "-d", name, str(PROGRAMS / "Call.java")], root)
    path = f"{jar}:{root / name}"
    flags = ["--enable-native-access=ALL-UNNAMED"] if home else []
    return [str(tools / "java"), *flags, "-cp", path, "Call"]


def java(root: Path) -> list[str]:
    """The jar, by JNI."""
    return _java(root, "", "jni")


def java_ffm(root: Path) -> list[str]:
    """The jar, by the foreign function interface of the newest JDK; LookupError without one."""
    for compiler in Path("/usr/lib/jvm").glob("*/bin/javac"):
        version = _run([str(compiler), "-version"], root).split()[1].split(".")[0]
        if int(version) >= 22:
            return _java(root, str(compiler.parents[1]), "ffm")
    raise LookupError("no JDK 22 or newer")


def csharp(root: Path) -> list[str]:
    """The package of C#, with Mono."""
    folder = _bound(root, "csharp")
    _run(["./build.sh"], folder)
    library = f"-r:{folder / 'bin' / 'add.dll'}"
    program = str(folder / "bin" / "call.exe")
    _run(["mcs", library, f"-out:{program}", str(PROGRAMS / "Call.cs")], folder)
    return ["mono", program]


def node(root: Path) -> list[str]:
    """The package of JavaScript."""
    infuse.compile(_graph(), CompileOptions("wasm32"), output=root / "web").close()
    return ["node", str(PROGRAMS / "call.mjs"), str(root / "web")]


MAKERS: Final[dict[str, tuple[str, Callable[[Path], list[str]]]]] = {
    "c": ("cc", c),
    "cpp": ("c++", cpp),
    "go": ("go", go),
    "rust": ("cargo", rust),
    "java": ("javac", java),
    "java-ffm": ("javac", java_ffm),
    "csharp": ("mcs", csharp),
    "node": ("node", node),
}
"""By language: the tool that it needs, and what makes its program."""


def measure(rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of a call by language, into earlier outputs and with new ones: the least of
    several turns.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        infuse.compile(_graph(), CompileOptions(threads=1), output=root / "model").close()
        commands = {}
        for name, (tool, maker) in MAKERS.items():
            if shutil.which(tool) is None:
                print(f"{name}: not measured, there is no {tool}")
                continue
            try:
                commands[name] = maker(root)
            except LookupError as error:
                print(f"{name}: not measured, {error}")
        times: dict[str, list[list[float]]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                *numbers, result = map(float, _run(command, root).split())
                assert result == 3, f"{name} computed {result}"
                times[name].append(numbers)
    return {name: [min(each) for each in zip(*turns)] for name, turns in times.items()}


def main() -> int:
    """Print a table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    times = measure(options.rounds)
    over = {name: max(each) - times["c"][0] for name, each in times.items()}
    for name, (reused, fresh) in times.items():
        bar = f"(bar {BARS[name]})" if name in BARS else ""
        row = f"{name:10} {reused:6.0f} ns, with new outputs {fresh:6.0f} ns"
        print(f"{row}: {over[name]:6.0f} ns over C {bar}")
    if options.json:
        facts = {"machine": machine.describe(), "ns": times, "over_c": over}
        options.json.write_text(json.dumps(facts, indent=1))
    return int(any(over[name] > bar for name, bar in BARS.items() if name in over))


if __name__ == "__main__":
    sys.exit(main())
