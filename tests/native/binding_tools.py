"""Toolchains of other languages: how a package is built, and what runs its programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

_DRIVERS: Final = Path(__file__).with_name("bindings")
Command = list[str]


class Tool(NamedTuple):
    """A language: programs that its packages need, where these come from; `build` makes a program
    of a file in a package's folder (None: the example), and gives the command that runs it.
    """

    programs: tuple[str, ...]
    package: str
    driver: str
    build: Callable[[Path, str, Path | None], Command]


def done(command: Sequence[str], folder: Path, **environment: str) -> str:
    """What a command prints that succeeds."""
    made = subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert made.returncode == 0, f"{command[0]}: {made.stdout[-2000:]}{made.stderr[-4000:]}"
    return made.stdout


def _cpp(folder: Path, name: str, driver: Path | None) -> Command:
    source, program = driver or folder / "example.cpp", folder / "program"
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{folder}")
    libraries = ("libmodel.a", "-pthread", "-lm", "-o", str(program))
    done(["c++", *flags, str(source), *libraries], folder)
    return [str(program)]


def _go(folder: Path, name: str, driver: Path | None) -> Command:
    if driver:
        _copy(driver, folder / "driver" / "main.go")
    assert done(["gofmt", "-l", "."], folder) == ""
    done(["go", "vet", "./..."], folder, GOFLAGS="-buildvcs=false", GOPROXY="off")
    source = "./driver" if driver else "./example"
    done(["go", "build", "-buildvcs=false", "-o", "program", source], folder, GOPROXY="off")
    return [str(folder / "program")]


def _rust(folder: Path, name: str, driver: Path | None) -> Command:
    if driver:
        _copy(driver, folder / "examples" / "driver.rs")
    program = "driver" if driver else "example"
    done(
        ["cargo", "build", "--quiet", "--offline", "--example", program],
        folder,
        CARGO_TARGET_DIR=str(folder / "target"),
        RUSTFLAGS="-D warnings",
    )
    return [str(folder / "target" / "debug" / "examples" / program)]


def java(folder: Path, name: str, driver: Path | None, home: str = "") -> Command:
    """Of the JDK in a folder, by default the usual one."""
    environment = {"JAVA_HOME": home} if home else {}
    done(["./build.sh"], folder, **environment)
    source, jar = driver or folder / "example" / "Example.java", folder / f"{name}.jar"
    tools = Path(home) / "bin" if home else Path()
    output, path = folder / "program", f"{jar}:{folder / 'program'}"
    compiler = str(tools / "javac")
    done([compiler, "-Xlint:all", "-cp", str(jar), "-d", str(output), str(source)], folder)
    flags = ["--enable-native-access=ALL-UNNAMED"] if home else []
    return [str(tools / "java"), "-Xcheck:jni", *flags, "-cp", path, source.stem]


def _csharp(folder: Path, name: str, driver: Path | None) -> Command:
    done(["./build.sh"], folder)
    if not driver:
        return ["mono", str(folder / "bin" / "example.exe")]
    program = folder / "bin" / "driver.exe"
    library = f"-r:{folder / 'bin' / name}.dll"
    done(["mcs", "-langversion:7.2", library, f"-out:{program}", str(driver)], folder)
    return ["mono", str(program)]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(source, target)


TOOLS: Final[Mapping[str, Tool]] = {
    "cpp": Tool(("c++",), "g++", "conduct.cpp", _cpp),
    "go": Tool(("go", "gcc"), "golang-go", "conduct.go", _go),
    "rust": Tool(("cargo", "cc"), "cargo", "conduct.rs", _rust),
    "java": Tool(("javac", "jar", "java"), "default-jdk-headless", "Conduct.java", java),
    "csharp": Tool(("mcs", "mono"), "mono-mcs mono-runtime", "Conduct.cs", _csharp),
}


def driver_of(language: str) -> Path:
    """The program that shows how sessions conduct themselves."""
    return _DRIVERS / TOOLS[language].driver


def languages() -> pytest.MarkDecorator:
    """Parameters: languages whose tools are here; others are skipped, with what is missing."""
    return pytest.mark.parametrize("language", [_parameter(name) for name in TOOLS])


def _parameter(name: str) -> Any:
    tool = TOOLS[name]
    missing = [each for each in tool.programs if shutil.which(each) is None]
    reason = f"no {', '.join(missing)}: packages of {name} are not tested ({tool.package})"
    return pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=reason))


def newest_java() -> str:
    """The folder of a JDK that has the foreign function interface; empty without one."""
    homes = Path("/usr/lib/jvm").glob("*/bin/javac")
    versions = {_version(each): str(each.parents[1]) for each in homes}
    return versions[max(versions)] if versions and max(versions) >= 22 else ""


def _version(compiler: Path) -> int:
    text = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=False)
    digits = "".join(c if c.isdigit() else " " for c in text.stdout + text.stderr).split()
    return int(digits[0]) if digits else 0
