"""What README.md promises: its Python runs as it stands, and the commands it names exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from examples.networks import mobilenet_v2
from tests.cli_tools import Cli, small_network

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
VERBS = re.findall(r"^\| `infuse (\w+) ", README, re.MULTILINE)
SERVER = {"serve", "rollout", "rollback"}


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(mobilenet_v2(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(PYTHON, names)
    (logits,) = names["outputs"]
    assert logits.shape == (1, 1000)
    assert re.search(r"\d+ → \d+ nodes", capsys.readouterr().out)


FRONTENDS = (ROOT / "docs" / "frontends.md").read_text(encoding="utf-8")
PROCESSING = (ROOT / "docs" / "processing.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", FRONTENDS, re.DOTALL))
def test_the_examples_of_frontends_run(code: str) -> None:
    if "import jax\n" in code:
        pytest.importorskip("jax")
    names: dict[str, object] = {}
    exec(code, names)
    assert {"graph", "model", "fast"} & names.keys()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PROCESSING, re.DOTALL))
def test_the_examples_of_processing_run(code: str) -> None:
    names: dict[str, object] = {}
    exec(code, names)
    assert "model" in names


def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_network(tmp_path / "model.onnx")
    np.savez(tmp_path / "real.npz", image=np.ones((2, 3, 8, 8), np.float32))
    monkeypatch.chdir(tmp_path)
    cli = Cli(capsys)
    commands = [
        shlex.split(line, comments=True)[1:] for line in COMMANDS if line.startswith("infuse ")
    ]
    assert {command[0] for command in commands} == set(VERBS) - SERVER | {"serve"}
    for command in commands:
        if command[0] in SERVER:  # tests/serving runs it
            continue
        answer = cli(*command)
        assert answer.status == 0, (command, answer.err)
        assert answer.out


def test_the_measurements_exist() -> None:
    named = set(re.findall(r"python -m (benchmarks\.\w+)", README))
    assert "benchmarks.zoo" in named
    for module in named:
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(verb: str) -> None:
    program = "from infuse.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, verb, "--help"], capture_output=True, text=True, check=True
    )
    assert "--help" in done.stdout


def test_the_table_has_commands() -> None:
    assert {"show", "optimize", "why", "compile", "run", "bench"} <= set(VERBS)
