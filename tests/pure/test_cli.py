"""What is said of bad input, how the program ends, and what a terminal shows."""

import io
import os
import pty
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console

import infuse
from infuse.cli import terminal
from infuse.cli.bars import Bar
from infuse.ir import Graph, constant
from infuse.ops.core.feeds import index_limits
from infuse.profiling import interface_inputs
from infuse.profiling.progress import Phases
from infuse.runtime import TensorSpec
from tests.cli_tools import Cli
from tests.pure.cli_stage import cli, network

__all__ = ["cli", "network"]


VERBS = (
    "show",
    "check",
    "convert",
    "optimize",
    "why",
    "compile",
    "run",
    "bench",
    "profile",
    "inspect",
)


# -- bad input -------------------------------------------------------------------------------------


def test_a_missing_file_is_named(cli: Cli, tmp_path: Path) -> None:
    for verb in VERBS:
        rest = {
            "optimize": ["-o", tmp_path / "o.onnx"],
            "convert": ["-o", tmp_path / "o.onnx"],
            "compile": ["-o", tmp_path / "o"],
            "why": ["FuseAttention"],
        }
        complaint = cli.refused(verb, tmp_path / "missing.onnx", *rest.get(verb, []))
        assert "missing.onnx" in complaint
        assert "INF-101" in complaint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.onnx", b""),
        ("a.infuse", b""),
        ("a.onnx", b"\x93junk" * 99),
        ("a.infuse", b"\x93junk" * 99),
    ],
)
def test_what_is_no_model_is_refused(cli: Cli, tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert "[INF-101]" in cli.refused("show", path)


def test_a_truncated_model_is_refused(cli: Cli, network: Path) -> None:
    network.write_bytes(network.read_bytes()[:-40])
    assert "[INF-" in cli.refused("show", network)


def test_a_folder_is_no_model(cli: Cli, tmp_path: Path) -> None:
    assert "folder" in cli.refused("show", tmp_path)
    assert "not a compiled model" in cli.refused("run", tmp_path, "--random")


def test_an_unknown_rule_is_answered_with_the_nearest(
    cli: Cli, network: Path, tmp_path: Path
) -> None:
    for option in ("--disable", "--only", "--enable"):
        complaint = cli.refused(
            "optimize", network, "-o", tmp_path / "o.onnx", option, "FuseConvBatchNorm"
        )
        assert "'FuseConvBatchNormalization'" in complaint
        nothing = cli.refused("optimize", network, "-o", tmp_path / "o.onnx", option, " , ")
        assert "names no rule" in nothing
    assert "'FuseAttention'" in cli.refused("why", network, "FuseAttentoin")
    assert "is a pass" in cli.refused("why", network, "FoldConstants")


def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    cli: Cli, network: Path, tmp_path: Path
) -> None:
    assert "does not exist" in cli.refused("optimize", network, "-o", tmp_path / "no" / "o.onnx")
    assert "does not end in .onnx or .infuse" in cli.refused(
        "optimize", network, "-o", tmp_path / "o.pb"
    )
    (tmp_path / "folder.onnx").mkdir()
    assert "it is a folder" in cli.refused("optimize", network, "-o", tmp_path / "folder.onnx")
    assert ".npz" in cli.refused("run", network, "--random", "-o", tmp_path / "out.txt")
    if os.getuid():
        tmp_path.chmod(0o500)
        assert "cannot be written" in cli.refused("optimize", network, "-o", tmp_path / "o.onnx")
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "m.onnx", "-o", "o.onnx", "--level", "most"], "extended"),
        (["optimize", "m.onnx"], "--output"),
        (["show"], "MODEL"),
        (["why", "m.onnx"], "--list"),
        (["shwo", "m.onnx"], "shwo"),
        (["bench", "m.onnx", "--rounds", "0"], "--rounds"),
        (["run", "m.onnx", "--threads", "0"], "--threads"),
    ],
)
def test_a_wrong_command_line_ends_with_status_two(
    cli: Cli, arguments: list[str], said: str
) -> None:
    assert said in cli.refused(*arguments, status=2)


@pytest.mark.parametrize("text", ["batch", "batch=", "=3", "batch=-1", "batch=two"])
def test_a_dimension_needs_a_size(cli: Cli, network: Path, text: str) -> None:
    assert "--dim batch=2" in cli.refused("run", network, "--random", "--dim", text)


@pytest.mark.parametrize("words", [("--seed", "3"), ("--dim", "batch=2")])
def test_what_random_inputs_need_is_refused_where_there_are_none(
    cli: Cli, network: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    graph = infuse.load(network)
    shapes = {v.name: [d if isinstance(d, int) else 1 for d in v.shape] for v in graph.inputs}
    arrays = {v.name: np.zeros(shapes[v.name], v.dtype.numpy) for v in graph.inputs}
    np.savez(tmp_path / "all.npz", **arrays)
    given = ("--inputs", tmp_path / "all.npz")
    assert f"{words[0]} has no use in a run without" in cli.refused("run", network, *given, *words)
    answer = cli.refused("run", network, "--random", *given, *words)
    assert f"{words[0]} has no use in a run whose inputs are all given" in answer
    assert f"{words[0]} has no use" in cli.refused(
        "compare", network, network, "--data", tmp_path / "all.npz", *words
    )


# -- inputs ----------------------------------------------------------------------------------------


def spec(name: str, dtype: object, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, np.dtype(dtype), shape)


def test_sizes_have_usual_defaults() -> None:
    specs = [
        spec("x", np.float32, "batch", 3, "height", "width"),
        spec("ids", np.int64, "batch", "seq + 1"),
    ]
    found = interface_inputs.sizes(specs, {"seq": 4})
    assert found == {"batch": 1, "height": 224, "width": 224, "seq": 4}
    arrays = interface_inputs.random_inputs(specs, found, 0, {"ids": 7})
    assert arrays["x"].shape == (1, 3, 224, 224)
    assert arrays["ids"].shape == (1, 5)
    assert 2 <= arrays["ids"].max() < 7


def test_random_inputs_are_the_same_for_a_seed_and_fit_their_types() -> None:
    specs = [
        spec("x", np.float16, 9),
        spec("flag", bool, 9),
        spec("padding_mask", np.int64, 9),
        spec("i", np.uint8, 9),
    ]
    first, again, other = (
        interface_inputs.random_inputs(specs, {}, seed, {}) for seed in (0, 0, 1)
    )
    assert all(
        np.array_equal(first[s.name], again[s.name]) and first[s.name].dtype == s.dtype
        for s in specs
    )
    assert not np.array_equal(first["x"], other["x"])
    assert (first["padding_mask"] == 1).all()
    assert set(first["i"].tolist()) <= {0, 1}


def test_limits_come_from_the_tables_that_are_indexed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"]),
    ]
    table = helper.make_tensor("table", TensorProto.FLOAT, [50, 2], [0.0] * 100)
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        [table],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "l.onnx",
    )
    assert index_limits(infuse.load(tmp_path / "l.onnx")) == {"ids": 50}


# -- the program -----------------------------------------------------------------------------------


def program(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "infuse", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(cli: Cli, verb: str) -> None:
    answer = cli(verb, "--help")
    assert answer.status == 0
    assert f"infuse {verb}" in answer.out


def test_the_program_prints_its_version_and_its_verbs() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"infuse {infuse.__version__}")
    done = program("--help")
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in VERBS)


def test_an_error_is_one_line_on_standard_error() -> None:
    done = program("show", "missing.onnx")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("infuse: [INF-101] missing.onnx: ")
    assert done.stderr.count("\n") == 1


def test_usage_is_told_on_standard_error() -> None:
    done = program("show", "--colour")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--colour" in done.stderr


def test_json_stays_whole_beside_warnings(network: Path, tmp_path: Path) -> None:
    done = program("optimize", network, "-o", tmp_path / "o.infuse", "--json")
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    assert done.stderr == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m infuse why --list | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the system has no device that is always full"
)
def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "infuse", "why", "--list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_with_130_and_leaves_nothing(network: Path, tmp_path: Path) -> None:
    """In a process of its own: a signal to pytest's worker may end the worker."""
    out = tmp_path / "out"
    out.mkdir()
    program = (
        "import signal, sys\n"
        "import infuse.cli.optimize as optimize\n"
        "from infuse.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "optimize.rewritten = lambda *_, **__: signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["optimize", str(network), "-o", str(out / "o.infuse")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(out.iterdir())


# -- progress --------------------------------------------------------------------------------------


def _read_terminal(side: int) -> str:
    """All that is written to a terminal until its last writer is gone."""
    parts = []
    while True:
        try:
            part = os.read(side, 1 << 12)
        except OSError:  # how Linux says that the other side is closed
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def test_progress_is_drawn_on_a_terminal_only(network: Path, tmp_path: Path) -> None:
    main_side, program_side = pty.openpty()
    arguments = ["optimize", str(network), "-o", str(tmp_path / "o.infuse"), "--json"]
    with ThreadPoolExecutor(
        1
    ) as reader:  # a terminal that nobody reads stops the program when it is full
        drawn = reader.submit(_read_terminal, main_side)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "infuse", *arguments],
                stdout=subprocess.PIPE,
                stderr=program_side,
                env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
                text=True,
                check=True,
            )
        finally:
            os.close(program_side)
        assert "small.onnx" in drawn.result()
    os.close(main_side)
    assert "small.onnx" not in done.stdout.partition("rewrites")[0]


def test_progress_without_a_terminal_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("work") as report:
        report("half", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_job_in_phases_writes_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with terminal.progress("work") as report:
        phases = Phases(report, ["one", "two", "three"])
        for name in ("one", "three", "two", "other"):  # phases do not come again
            phases.enter(name)
            for done in range(4):
                now[0] += 16
                phases("step", done, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "work: phase 1 of 3, one (0:00:00)",
        "work: phase 1 of 3, one: step 1 of 4 (0:00:32)",
        "work: phase 1 of 3, one: step 3 of 4 (0:01:04)",
    ]
    assert lines[3] == "work: phase 3 of 3, three (0:01:04)"
    assert not any("two" in line or "other" in line for line in lines)


def test_a_bar_shows_the_phase_and_the_time_that_is_left() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Bar("work", screen) as bar:
        phases = Phases(bar, [f"part {number}" for number in range(1, 9)])
        phases.enter("part 3")
        phases("step", 1, 4)
        screen.print(bar._bar.get_renderable())
    assert isinstance(screen.file, io.StringIO)
    drawn = screen.file.getvalue()
    assert "work: phase 3 of 8, part 3: step" in drawn
    assert re.search(r"left, 0:00:\d\d so far", drawn)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_names_in_tables_lose_their_middle(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    name = "/a/long/name/of/a/layer/" * 4 + "end"
    terminal.say_table("", ("layer", "#ms", "#bytes"), [(name, "1.250", "123 456"), ("b", "2", "")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert any("…" in line and "end " in line and "1.250   123 456" in line for line in lines) == (
        width < 120
    )


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (4e12, "4000.0 GB")]
)
def test_bytes_are_written_for_people(count: float, text: str) -> None:
    assert terminal.bytes_text(count) == text


# -- check and convert -----------------------------------------------------------------------------


def test_check_says_what_a_model_holds(cli: Cli, network: Path) -> None:
    facts = cli("check", network, "--json").json
    assert facts["format"] == "ONNX"
    assert facts["problems"] == []
    assert "all 7 nodes have native code" in cli("check", network).out


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
def test_check_lists_every_unknown_operator(cli: Cli, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], domain="org.example"),
        helper.make_node("Strange", ["a"], ["b"], domain="org.example"),
        helper.make_node("Odd", ["b"], ["y"], domain="org.example"),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "net", [value], [result])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("org.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "net.onnx")
    answer = cli("check", tmp_path / "net.onnx", "--json")
    assert answer.status == 1
    rows = [(p["operator"], p["count"], p["is"]) for p in answer.json["problems"]]
    assert rows == [("org.example::Strange", 2, "unknown"), ("org.example::Odd", 1, "unknown")]
    assert "org.example::Odd" in cli("check", tmp_path / "net.onnx").out


def test_convert_writes_the_same_graph_in_another_format(
    cli: Cli, network: Path, tmp_path: Path
) -> None:
    for name in ("net.infuse", "net.onnx"):
        answer = cli("convert", network, "-o", tmp_path / name)
        assert answer.status == 0
        assert len(infuse.load(tmp_path / name)) == len(infuse.load(network)) == 7
    assert "format: Infuse" in cli("check", tmp_path / "net.infuse").out
    assert "net.txt" in cli.refused("convert", network, "-o", tmp_path / "net.txt")
    complaint = cli.refused("convert", network, "-o", tmp_path / "net.infuse", "--opset", 20)
    assert "--opset" in complaint


def test_convert_codes_weights(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    graph = Graph("net")
    graph.add_output(constant(rng.normal(0, 0.05, (90, 70)).astype(np.float32)), "y")
    infuse.save(graph, tmp_path / "net.infuse")
    sizes = []
    for number, options in enumerate(([], ["--coded"], ["--coded", "--cluster-bits", 4])):
        target = tmp_path / f"{number}.infuse"
        assert cli("convert", tmp_path / "net.infuse", "-o", target, *options).status == 0
        sizes.append(target.stat().st_size)
        values = infuse.load(target).outputs[0].const
        assert values is not None
        assert np.array_equal(values, graph.outputs[0].const) == (number < 2)
    assert sizes[1] < 0.9 * sizes[0]
    assert sizes[2] < 0.25 * sizes[0]
    for options in (["--cluster-bits", 4], ["--coded", "--opset", 20]):
        cli.refused("convert", tmp_path / "net.infuse", "-o", tmp_path / "x.infuse", *options)
    cli.refused("convert", tmp_path / "net.infuse", "-o", tmp_path / "x.onnx", "--coded")
    odd = ("--coded", "--cluster-bits", 9)
    assert cli("convert", tmp_path / "net.infuse", "-o", tmp_path / "x.infuse", *odd).status == 2
