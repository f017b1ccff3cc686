"""The commands that need no compiler, what is said of bad input, and how the program ends."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import infuse
from infuse import ops
from infuse.cli import inputs, terminal
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.feeds import index_limits
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import Rule
from infuse.runtime import TensorSpec
from tests.cli_tools import Cli, small_network

VERBS = ("show", "optimize", "why", "compile", "run", "bench", "profile")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network(tmp_path / "small.onnx")


# -- show ------------------------------------------------------------------------------------------


def test_show_tells_what_a_model_is_made_of(cli: Cli, network: Path) -> None:
    facts = cli("show", network, "--json").json
    assert facts["inputs"] == [{"name": "image", "type": "float32[batch, 3, 8, 8]"}]
    assert facts["outputs"] == [{"name": "pooled [mean]", "type": "float32[batch, 4, 1, 1]"}]
    assert facts["symbols"] == ["batch"]
    assert facts["opsets"] == {"ai.onnx": 17}
    assert facts["nodes"] == 7
    assert facts["operators"]["Conv"] == 1
    assert facts["parameters"] == 4 * 3 * 3 * 3 + 4 * 4
    assert facts["weights_bytes"] == 4 * facts["parameters"]


def test_show_prints_names_as_they_are(cli: Cli, network: Path) -> None:
    answer = cli("show", network)
    assert answer.status == 0
    for text in (
        "pooled [mean]",
        "float32[batch, 3, 8, 8]",
        "124 parameters",
        "symbolic dimensions: batch",
    ):
        assert text in answer.out


def test_show_prints_the_text_form(cli: Cli, network: Path) -> None:
    text = cli("show", network, "--text").out
    assert text.startswith('graph "small" (%image: float32[batch, 3, 8, 8]) {')
    assert cli("show", network, "--text", "--json").json["text"] == text


@pytest.mark.row("G18")
@pytest.mark.row("G36")
def test_show_lists_the_kernel_calls(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    network = small_network(tmp_path / "fixed.onnx", batch=2)
    kernels = cli("show", network, "--kernels", "--target", "x86-64-v3", "--json").json["kernels"]
    (fused,) = (call for call in kernels["calls"] if "conv" in call["kernel"].lower())
    assert len(fused["nodes"]) > 1
    assert (
        kernels["arena_lower_bound"]
        <= kernels["arena_bytes"]
        <= 1.05 * kernels["arena_lower_bound"]
    )
    shown = cli("show", network, "--kernels", "--target", "x86-64-v3").out
    assert fused["kernel"] in shown
    assert "lower bound" in shown


@pytest.mark.row("R1")
def test_show_prints_the_lowered_program(cli: Cli, network: Path) -> None:
    """Where every tensor lies, for any processor, and the functions that are called."""
    options = ("show", network, "--kernels", "--text", "--target", "aarch64", "--threads", 1)
    text = cli(*options).out
    assert text.startswith("# small for aarch64, 1 thread\nprogram small\n  sizes batch\n")
    assert "  input 0 'image': float32[batch, 3, 8, 8]\n" in text
    assert "const float* p4 = 'image' input 0: float32[batch, 3, 8, 8]\n" in text
    called = re.findall(r"^    (\w+)$", text, re.MULTILINE)
    assert called
    assert set(called) == set(re.findall(r"^function (\w+)\(", text, re.MULTILINE))
    answer = cli(*options, "--json").json
    assert answer["kernels"]["text"] == text
    assert answer["text"].startswith('graph "small"')


def test_show_says_when_memory_is_planned_at_run_time(cli: Cli, network: Path) -> None:
    assert cli("show", network, "--kernels", "--json").json["kernels"]["arena_bytes"] is None
    assert "planned at run time" in cli("show", network, "--kernels").out


# -- optimize --------------------------------------------------------------------------------------


@pytest.mark.row("G11")
@pytest.mark.parametrize("ending", [".onnx", ".infuse"])
def test_optimize_writes_a_smaller_model_that_computes_the_same(
    cli: Cli, network: Path, ending: str
) -> None:
    out = network.with_suffix(f".small{ending}")
    facts = cli("optimize", network, "-o", out, "--json").json
    assert facts["nodes"]["after"] < facts["nodes"]["before"] == 7
    assert {"FuseConvBatchNormalization", "RemoveIdentity"} <= facts["fired"].keys()
    assert facts["verification"]["checked"]
    assert facts["verification"]["difference"] < 1e-5
    assert facts["output"]["bytes"] == out.stat().st_size
    feeds = {"image": np.random.default_rng(1).standard_normal((2, 3, 8, 8), np.float32)}
    (expected,) = evaluate(infuse.load(network), feeds).values()
    (found,) = evaluate(infuse.load(out), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.row("G38")
def test_optimize_prints_what_it_did(cli: Cli, network: Path, tmp_path: Path) -> None:
    text = cli("optimize", network, "-o", tmp_path / "out.onnx").out
    for part in (
        "BatchNormalization",
        "FuseConvBatchNormalization",
        "verified on random inputs with batch = 1",
        "wrote",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("options", "fired"),
    [
        (["--level", "none"], set()),
        (["--only", "RemoveIdentity"], {"RemoveIdentity"}),
        (
            ["--only", "RemoveIdentity,FuseConvBatchNormalization"],
            {"RemoveIdentity", "FuseConvBatchNormalization"},
        ),
    ],
)
def test_rules_are_chosen(cli: Cli, network: Path, options: list[str], fired: set[str]) -> None:
    facts = cli("optimize", network, "-o", network.with_suffix(".infuse"), "--json", *options).json
    assert set(facts["fired"]) == fired


@pytest.mark.parametrize(
    ("ending", "options", "level"),
    [
        (".infuse", [], "all"),
        (".onnx", [], "basic"),
        (".onnx", ["--opset", 23], "extended"),
        (".onnx", ["--for", "onnxruntime"], "extended"),
        (".onnx", ["--level", "all"], "all"),
    ],
)
def test_the_level_serves_whoever_reads_the_file(
    cli: Cli, network: Path, tmp_path: Path, ending: str, options: list[object], level: str
) -> None:
    assert (
        cli("optimize", network, "-o", tmp_path / f"o{ending}", "--json", *options).json["level"]
        == level
    )


def test_rules_are_left_out(cli: Cli, network: Path) -> None:
    out = network.with_suffix(".infuse")
    facts = cli(
        "optimize", network, "-o", out, "--json", "--disable", "FuseConvBatchNormalization"
    ).json
    assert (
        "BatchNormalization" in facts["operators"]["after"]
        or "FuseConvBatchNormalization" not in facts["fired"]
    )
    assert "FuseConvBatchNormalization" not in facts["fired"]


def test_the_opset_is_chosen(cli: Cli, network: Path, tmp_path: Path) -> None:
    assert cli("optimize", network, "-o", tmp_path / "out.onnx", "--opset", 13).status == 0
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 13
    assert "--opset is for .onnx" in cli.refused(
        "optimize", network, "-o", tmp_path / "out.infuse", "--opset", 13
    )


def test_optimize_may_write_over_its_input(cli: Cli, network: Path) -> None:
    assert cli("optimize", network, "-o", network).status == 0
    assert len(infuse.load(network)) < 7


# -- verification ----------------------------------------------------------------------------------


def test_a_skipped_verification_says_why(
    cli: Cli, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = network.with_suffix(".infuse")
    assert "not verified: --no-verify" in cli("optimize", network, "-o", out, "--no-verify").out
    monkeypatch.setattr("infuse.cli.optimize.LIMIT", 10)
    assert "not verified: it takes" in cli("optimize", network, "-o", out).out
    assert "verified on random inputs" in cli("optimize", network, "-o", out, "--verify").out


class Unfolds(Rule):
    """Relu(x) → |x|, which is wrong"""

    def match(self, x: object) -> object:
        return ops.relu(x)

    def build(self, x: object) -> object:
        return ops.abs(x)


@pytest.mark.row("G39")
def test_a_wrong_rule_is_left_out_and_a_right_model_is_written(cli: Cli, network: Path) -> None:
    infuse.register(Unfolds)
    try:
        out = network.with_suffix(".infuse")
        facts = cli("optimize", network, "-o", out, "--json").json
        assert facts["verification"]["checked"]
        assert [g["rule"] for g in facts["verification"]["guilty"]] == ["Unfolds"]
        feeds = {"image": np.random.default_rng(1).standard_normal((2, 3, 8, 8), np.float32)}
        (expected,) = evaluate(infuse.load(network), feeds).values()
        (found,) = evaluate(infuse.load(out), feeds).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert "Unfolds is wrong on this model" in cli("optimize", network, "-o", out).out
        wrong = cli("optimize", network, "-o", out, "--json", "--no-verify").json
        assert "Unfolds" in wrong["fired"]
    finally:
        infuse.unregister("Unfolds")


@pytest.mark.row("G39")
def test_verification_takes_given_inputs(cli: Cli, network: Path, tmp_path: Path) -> None:
    out, inputs = network.with_suffix(".infuse"), tmp_path / "inputs.npz"
    np.savez(inputs, image=np.ones((3, 3, 8, 8), np.float32))
    assert (
        "verified on the given inputs"
        in cli("optimize", network, "-o", out, "--inputs", inputs).out
    )
    np.savez(inputs, picture=np.ones((3, 3, 8, 8), np.float32))
    assert "'image' missing" in cli.refused("optimize", network, "-o", out, "--inputs", inputs)
    assert "--no-verify" in cli.refused(
        "optimize", network, "-o", out, "--inputs", inputs, "--no-verify"
    )


@pytest.mark.row("R4")
def test_symbolic_dimensions_are_fixed(cli: Cli, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "fixed.onnx"
    assert cli("optimize", network, "-o", out, "--set-dim", "batch=2").status == 0
    assert str(infuse.load(out).inputs[0].type) == "float32[2, 3, 8, 8]"
    twice = cli.refused(
        "optimize", network, "-o", out, "--set-dim", "batch=2", "--set-dim", "batch=3"
    )
    assert "gives batch the sizes 2 and 3" in twice
    assert "its symbols are batch" in cli.refused(
        "optimize", network, "-o", out, "--set-dim", "seq=2"
    )


@pytest.mark.row("G38")
def test_every_rewrite_is_explained(cli: Cli, network: Path, tmp_path: Path) -> None:
    text = cli("optimize", network, "-o", tmp_path / "o.onnx", "--explain").out
    assert "rewrites in order" in text
    assert "BatchNormalization(norm)" in text
    facts = cli(
        "optimize", network, "-o", tmp_path / "o.onnx", "--explain", "--level", "basic", "--json"
    ).json
    assert all(miss.keys() == {"rule", "node", "reason"} for miss in facts["near_misses"])


@pytest.mark.row("G38")
def test_a_report_is_written_beside_the_model(cli: Cli, network: Path, tmp_path: Path) -> None:
    page, out = tmp_path / "report.html", tmp_path / "o.onnx"
    facts = cli("optimize", network, "-o", out, "--report", page, "--json").json
    assert facts["report"] == {"path": str(page), "bytes": page.stat().st_size}
    text = page.read_text("utf-8")
    assert "small.onnx" in text
    assert "FuseConvBatchNormalization" in text
    data = tmp_path / "report.json"
    assert f"wrote {data}" in " ".join(
        cli("optimize", network, "-o", out, "--report", data).out.split("\n")
    )
    assert json.loads(data.read_text("utf-8"))["rewrites"]
    assert "does not end in .html" in cli.refused(
        "optimize", network, "-o", out, "--report", tmp_path / "r.pdf"
    )


# -- why -------------------------------------------------------------------------------------------


def test_why_tells_that_a_rule_fires(cli: Cli, network: Path) -> None:
    facts = cli("why", network, "FuseConvBatchNormalization", "--json").json
    assert facts["level"] == "basic"
    assert "Conv" in facts["equation"]
    assert [match["fires"] for match in facts["matches"]] == [True]
    assert facts["fired"] == 1


@pytest.mark.row("G38")
def test_why_tells_what_stopped_a_rule(cli: Cli, network: Path) -> None:
    facts = cli("why", network, "FuseAttention", "--json").json
    (match,) = facts["matches"]
    assert not match["fires"]
    assert match["reason"]
    assert facts["fired"] == 0
    assert match["reason"].split()[0] in cli("why", network, "FuseAttention").out


def test_why_lists_every_rule_with_its_equation(cli: Cli) -> None:
    listed = cli("why", "--list", "--json").json
    assert {rule["rule"] for rule in listed["rules"]} == {rule.name for rule in ALL_RULES}
    assert all(rule["equation"] and rule["level"] for rule in listed["rules"])
    assert {"FoldConstants", "EliminateCommonSubexpressions"} <= {
        each["pass"] for each in listed["passes"]
    }
    assert "FuseConvBatchNormalization" in cli("why", "--list").out


# -- bad input -------------------------------------------------------------------------------------


def test_a_missing_file_is_named(cli: Cli, tmp_path: Path) -> None:
    for verb in VERBS:
        rest = {
            "optimize": ["-o", tmp_path / "o.onnx"],
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
        (["bench", "m.onnx", "--against", "abacus"], "onnxruntime"),
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


# -- inputs ----------------------------------------------------------------------------------------


def spec(name: str, dtype: object, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, np.dtype(dtype), shape)


def test_sizes_have_usual_defaults() -> None:
    specs = [
        spec("x", np.float32, "batch", 3, "height", "width"),
        spec("ids", np.int64, "batch", "seq + 1"),
    ]
    found = inputs.sizes(specs, {"seq": 4})
    assert found == {"batch": 1, "height": 224, "width": 224, "seq": 4}
    arrays = inputs.random_inputs(specs, found, 0, {"ids": 7})
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
    first, again, other = (inputs.random_inputs(specs, {}, seed, {}) for seed in (0, 0, 1))
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


def test_an_interrupt_ends_with_130_and_leaves_nothing(
    cli: Cli, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("infuse.cli.optimize.optimize_verified", interrupted)
    out = tmp_path / "out"
    out.mkdir()
    assert cli("optimize", network, "-o", out / "o.infuse").status == 130
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


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (4e12, "4000.0 GB")]
)
def test_bytes_are_written_for_people(count: float, text: str) -> None:
    assert terminal.bytes_text(count) == text
