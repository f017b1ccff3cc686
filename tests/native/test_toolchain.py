from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infuse.build import toolchain as module
from infuse.build.library import make_library
from infuse.build.processes import environment
from infuse.build.toolchain import LOG, Toolchain
from infuse.errors import CacheError, CompileError, OptionError, ToolchainError
from infuse.runtime.cpus import cpu_features
from infuse.runtime.levels import limit_name
from infuse.targets import Target
from infuse.targets.cpu.emit import units

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
pytestmark = pytest.mark.usefixtures("this_processor")
NATIVE = Target.resolve("native")
Script = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_chosen_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)


@pytest.fixture
def compiler() -> Toolchain:
    return Toolchain.find()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """`script(name, body)`: a program that says it is a compiler when asked, and else does
    `body`.
    """

    def write(name: str, body: str, version: str = "echo 'g++ (Fake) 12.2.0'") -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {version}; exit; fi\n{body}\n')
        path.chmod(0o755)
        return path

    return write


def hide_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has), or soon does: one that is killed may still have
    to be given time by a busy machine.
    """
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_system_compiler_is_found(compiler: Toolchain) -> None:
    assert Path(compiler.command[0]).is_absolute()
    assert compiler.kind in ("gcc", "clang", "zig")
    assert any(c.isdigit() for c in compiler.version)


def test_chosen_compiler_comes_first(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = script("mine", "exit 1", "echo 'clang version 19.1.0'")
    monkeypatch.setenv("CXX", str(chosen))
    assert Toolchain.find() == Toolchain((str(chosen),), "clang", "clang version 19.1.0")


def test_chosen_compiler_may_have_arguments(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = script("mine", "exit 1", 'echo "g++ 14.1.0"')
    monkeypatch.setenv("CXX", f"env {chosen}")
    assert Toolchain.find().command[1:] == (str(chosen),)


def test_chosen_compiler_may_have_spaces_and_quotes_in_its_path(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = script("my \"c++\" 'compiler'", "exit 1")
    monkeypatch.setenv("CXX", str(chosen))
    assert Toolchain.find().command == (str(chosen),)


def test_ziglang_stands_in_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip(
        "ziglang", reason="the package ziglang is not installed: pip install ziglang"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Toolchain.find()
    assert found.kind == "zig"
    assert found.command[1:] == ("c++",)
    assert found.version.startswith("zig 0.")


def test_no_compiler_at_all_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hide_ziglang(monkeypatch)
    with pytest.raises(
        ToolchainError, match=r"no C\+\+ compiler was found.*pip install ziglang.*g\+\+"
    ):
        Toolchain.find()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("/nowhere/g++", "'/nowhere/g\\+\\+' does not exist"),
        ("/etc/passwd", "'/etc/passwd' does not exist or may not be run"),
        ("false", "does not work as a C\\+\\+ compiler"),
        ("'g++", "is not a command: No closing quotation"),
    ],
)
def test_wrong_chosen_compiler_is_named(
    chosen: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", chosen)
    with pytest.raises(ToolchainError, match=message):
        Toolchain.find()


def test_failing_compiler_shows_what_it_said(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(script("mine", "", "echo 'licence error: expired' >&2; exit 3")))
    with pytest.raises(ToolchainError, match="licence error: expired"):
        Toolchain.find()


def test_broken_system_compiler_is_passed_over(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = script("g++", "", "exit 1").parent
    script("clang++", "", "echo 'clang version 18.0.0'")
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    assert Toolchain.find().command == (str(folder / "clang++"),)


def test_replaced_compiler_is_asked_again(script: Script) -> None:
    path = script("mine", "", "echo 'g++ 12.1.0'")
    assert Toolchain.from_command([str(path)]).version == "g++ 12.1.0"
    script("mine", "", "echo 'g++ 13.10.0'")
    assert Toolchain.from_command([str(path)]).version == "g++ 13.10.0"


def test_file_that_cannot_be_started_is_no_compiler(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    with pytest.raises(ToolchainError, match="cannot be run"):
        Toolchain.from_command([str(path)])


def test_targets() -> None:
    limit = limit_name()
    assert NATIVE.features == (Target.resolve(limit).features if limit else cpu_features())
    names = ["native", "x86-64", "x86-64-v3", "x86-64-v4"]
    fingerprints = {Target.resolve(name).fingerprint for name in names}
    assert len(fingerprints) == len(names)
    assert (
        {"avx2", "fma"}
        <= Target.resolve("x86-64-v3").features
        < Target.resolve("x86-64-v4").features
    )
    with pytest.raises(OptionError, match=r"no target 'pentium'.*infuse targets"):
        Target.resolve("pentium")


def test_native_fingerprint_tells_processors_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuse.targets.base.cpu_description", lambda: "another one")
    assert Target.resolve("native").fingerprint != NATIVE.fingerprint


@pytest.mark.parametrize("target", ["native", "x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("kind", ["system", "zig"])
def test_every_target_compiles(kind: str, target: str, compiler: Toolchain, tmp_path: Path) -> None:
    if kind == "zig":
        pytest.importorskip(
            "ziglang", reason="the package ziglang is not installed: pip install ziglang"
        )
        compiler = Toolchain.from_command([str(module.ziglang()), "c++"])
    source, output = tmp_path / "a.cpp", tmp_path / "a.so"
    visible = '__attribute__((visibility("default")))'
    source.write_text(
        f'int hidden() {{ return 1; }}\nextern "C" {visible} int seen() {{ return hidden() + 41; }}'
    )
    make_library(compiler, [source], output, target=Target.resolve(target))
    if Target.resolve(target).features <= cpu_features():
        assert ctypes.CDLL(str(output)).seen() == 42
    assert b".debug_info" not in output.read_bytes()
    if not (shutil.which("nm") and shutil.which("readelf")):
        pytest.skip("binutils are not installed, so the symbols cannot be listed")
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", output], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[2] for line in symbols.splitlines()] == ["seen"]
    needs = subprocess.run(
        ["readelf", "-d", output], capture_output=True, text=True, check=True
    ).stdout
    assert "stdc++" not in needs
    assert "libc++" not in needs


@pytest.mark.parametrize("flags", [(), ("-O1",), ("-g",), ("-g1",), ("-ggdb3",)])
@pytest.mark.parametrize("glibc", ["", "2.28"])
def test_zig_keeps_lines_and_symbols_only_where_they_are_asked_for(
    flags: tuple[str, ...], glibc: str
) -> None:
    zig = Toolchain(("zig", "c++", *flags), "zig", "zig 0.17", glibc=glibc)
    is_debugged = any(flag.startswith("-g") for flag in flags)
    for name in ("native", "x86-64-v3", "aarch64"):
        before, behind = zig.linking(Target.resolve(name), Path("a.so"))
        for command in (zig.compiling(Target.resolve(name)), (*before, *behind)):
            assert ("-s" in command, "-g0" in command) == (not is_debugged,) * 2
    sanitizing = dataclasses.replace(zig, sanitizer="address")
    assert "-g0" not in sanitizing.compiling(Target.resolve("native"))


def test_several_sources_become_one_library(compiler: Toolchain, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "folder" $HOME;'
    folder.mkdir()
    count = 5
    for i in range(1, count):
        (folder / f"part {i}.cpp").write_text(
            f'#include "value.hpp"\nint part{i}() {{ return {i} * VALUE; }}'
        )
    include = folder / "in clude"
    include.mkdir()
    (include / "value.hpp").write_text("#define VALUE 10\n")
    declared = "".join(f"int part{i}();" for i in range(1, count))
    total = " + ".join(f"part{i}()" for i in range(1, count))
    (folder / "main.cpp").write_text(
        f'{declared} extern "C" __attribute__((visibility("default"))) '
        f"int total() {{ return {total}; }}"
    )
    steps: list[tuple[str, int, int]] = []
    sources = [folder / "main.cpp", *(folder / f"part {i}.cpp" for i in range(1, count))]
    output = folder / "all of it.so"
    make_library(
        compiler,
        sources,
        output,
        target=NATIVE,
        include=[include],
        jobs=2,
        progress=lambda *step: steps.append(step),
    )
    assert ctypes.CDLL(str(output)).total() == 100
    assert steps == [("compile", i, count + 1) for i in range(count + 2)]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*(source.name for source in sources), include.name, output.name]
    )


def test_rejected_source_is_named_with_its_first_error(compiler: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "good.cpp").write_text("int good() { return 1; }")
    bad = tmp_path / "bad.cpp"
    bad.write_text(
        "int good();\nint worse() { return unheard_of; }\nint more() { return also_unheard_of; }"
    )
    with pytest.raises(CompileError) as caught:
        make_library(compiler, [tmp_path / "good.cpp", bad], tmp_path / "a.so", target=NATIVE)
    message = str(caught.value)
    assert message.count("\n") == 0
    assert f"{bad}: " in message
    assert "bad.cpp:2:" in message
    assert "unheard_of" in message
    assert compiler.version in message
    assert "also_unheard_of" in (tmp_path / LOG).read_text()


def test_missing_function_is_found_when_linking(compiler: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(
        'int nowhere(); __attribute__((visibility("default"))) int here() { return nowhere(); }'
    )
    with pytest.raises(CompileError, match=r"undefined (reference|symbol).*nowhere"):
        make_library(compiler, [tmp_path / "a.cpp"], tmp_path / "a.so", target=NATIVE)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("kill -9 $$", CompileError, "killed or ran out of memory.*fewer jobs"),
        (
            "echo 'g++: fatal error: Killed signal terminated program' >&2; exit 1",
            CompileError,
            "fewer jobs",
        ),
        ("echo 'as: a.o: No space left on device' >&2; exit 1", CacheError, "disk is full"),
        (
            "echo \"error: bad value 'x' for '-march=' switch\" >&2; exit 1",
            ToolchainError,
            "cannot build for this",
        ),
        (
            "echo \"Error: no such instruction: 'tilerelease'\" >&2; exit 1",
            ToolchainError,
            "cannot build for this",
        ),
        (
            "echo \"error: unrecognized command-line option '-mamx-tile'\" >&2; exit 1",
            ToolchainError,
            "cannot build for this",
        ),
        ("exit 1", CompileError, "it gave no reason"),
        ("exit 0", ToolchainError, "without an error and without a result"),
    ],
)
def test_failures_of_the_compiler(
    body: str, kind: type[Exception], message: str, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "a.cpp").write_text("")
    compiler = Toolchain.from_command([str(script("mine", body))])
    with pytest.raises(kind, match=message):
        make_library(compiler, [tmp_path / "a.cpp"], tmp_path / "a.so", target=NATIVE)


def test_first_failure_ends_the_other_compilers(script: Script, tmp_path: Path) -> None:
    """The other one sleeps for longer than a test may take."""
    body = (
        f'echo $$ >> "{tmp_path}/pids"\n'
        'case "$*" in *bad.cpp*)\n'
        f'until [ "$(wc -l < "{tmp_path}/pids")" = 2 ]; do sleep 0.02; done; exit 1\n'
        ";; *) sleep 3600 & wait;; esac"
    )
    for name in ("slow.cpp", "bad.cpp"):
        (tmp_path / name).write_text("")
    compiler = Toolchain.from_command([str(script("mine", body))])
    with pytest.raises(CompileError):
        make_library(
            compiler,
            [tmp_path / "slow.cpp", tmp_path / "bad.cpp"],
            tmp_path / "a.so",
            target=NATIVE,
            jobs=2,
        )
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_compilers_run_side_by_side_but_not_more_than_allowed(
    script: Script, tmp_path: Path
) -> None:
    body = (
        f'mkdir "{tmp_path}/run/$$"\n'
        f'until [ "$(ls "{tmp_path}/run" | wc -l)" -ge 2 ] || [ -s "{tmp_path}/seen" ]\n'
        f'do sleep 0.02; done; sleep 0.2; ls "{tmp_path}/run" | wc -l >> "{tmp_path}/seen"\n'
        f'rmdir "{tmp_path}/run/$$"; for last; do :; done; : > "$last"'
    )
    (tmp_path / "run").mkdir()
    sources = [tmp_path / f"{i}.cpp" for i in range(5)]
    for source in sources:
        source.write_text("")
    compiler = Toolchain.from_command([str(script("mine", body))])
    make_library(compiler, sources, tmp_path / "a.so", target=NATIVE, jobs=2)
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert max(seen) == 2


def test_a_source_that_only_calls_others_is_optimized_less(script: Script, tmp_path: Path) -> None:
    body = f'echo "$*" >> "{tmp_path}/seen"; for last; do :; done; : > "$last"'
    sources = [tmp_path / name for name in ("main.cpp", "loops.cpp")]
    for source in sources:
        source.write_text("")
    compiler = Toolchain.from_command([str(script("mine", body))])
    make_library(compiler, sources, tmp_path / "a.so", target=NATIVE, jobs=1, calling=sources[0])
    main, loops, _ = (tmp_path / "seen").read_text().splitlines()
    levels = [[word for word in call.split() if word.startswith("-O")] for call in (main, loops)]
    assert levels == [["-O3", "-O1"], ["-O3"]]


def test_sources_that_may_be_one_object_are_shared_out_among_the_jobs(
    script: Script, tmp_path: Path
) -> None:
    """Neighbours, so that those with the same headers share them; the others are compiled alone."""
    body = f'echo "$*" >> "{tmp_path}/seen"; for last; do :; done; : > "$last"'
    sources = [tmp_path / name for name in ("main.cpp", *(f"{c}.cpp" for c in "abcde"))]
    for i, source in enumerate(sources):
        source.write_text(f'#include "{i % 2}.hpp"\n')
    compiler = Toolchain.from_command([str(script("mine", body))])
    library = tmp_path / "a.so"
    names = units.alone({s.name: f"{units.FUNCTION}{s.read_text()}" for s in sources[1:]})
    assert names == ["b.cpp", "d.cpp", "a.cpp", "c.cpp", "e.cpp"]
    together = [tmp_path / name for name in names]
    make_library(
        compiler, sources, library, target=NATIVE, jobs=2, together=together, join=units.join
    )
    compiled = [words[-3] for words in map(str.split, (tmp_path / "seen").read_text().splitlines())]
    joined = {Path(name).read_text() for name in compiled if "with_" in name}
    assert joined == {
        '#include "a.cpp"\n#include "c.cpp"\n#include "e.cpp"\n',
        '#include "b.cpp"\n#include "d.cpp"\n',
    }
    assert str(sources[0]) in compiled
    assert not list(tmp_path.glob("*.o"))


def test_interrupt_ends_the_compilers_and_leaves_nothing(script: Script, tmp_path: Path) -> None:
    """Ctrl-C in the middle of a compilation: no process and no half-written folder is left."""
    pids, cache = tmp_path / "pids", tmp_path / "cache"
    compiler = script(
        "mine", f'sleep 60 & echo $$ $! >> "{pids}.new"; mv "{pids}.new" "{pids}"; wait'
    )
    program = "from tests.native.adder import build_adder\nbuild_adder()"
    environment = {
        **os.environ,
        "CXX": str(compiler),
        "INFUSE_CACHE": str(cache),
        "PYTHONPATH": PYTHONPATH,
    }
    child = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not pids.exists():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in told
    assert all(gone(int(pid)) for pid in pids.read_text().split())
    assert [path.name for path in (cache / "compiled").iterdir()] == [".locks"]


def test_temporary_files_of_the_compiler_go_beside_the_output(
    script: Script, tmp_path: Path
) -> None:
    body = (
        f'echo "$TMPDIR" > "{tmp_path}/seen"; pwd >> "{tmp_path}/seen"; '
        'for last; do :; done; : > "$last"'
    )
    output = tmp_path / "out" / "a.so"
    output.parent.mkdir()
    (tmp_path / "a.cpp").write_text("")
    make_library(
        Toolchain.from_command([str(script("mine", body))]),
        [tmp_path / "a.cpp"],
        output,
        target=NATIVE,
    )
    assert (tmp_path / "seen").read_text().split() == [str(output.parent)] * 2


def test_zig_has_a_cache_where_the_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "ZIG_GLOBAL_CACHE_DIR" not in environment()
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    assert environment()["ZIG_GLOBAL_CACHE_DIR"] == str(tmp_path / "cache" / "zig")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "mine")
    assert environment()["ZIG_GLOBAL_CACHE_DIR"] == "mine"
