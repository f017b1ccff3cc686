"""What README.md promises: its Python runs as it stands, and the commands it names exist."""

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from examples.networks import mobilenet_v2

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
VERBS = re.findall(r"^\| `infuse (\w+) ", README, re.MULTILINE)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(mobilenet_v2(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(PYTHON, names)
    (logits,) = names["outputs"]
    assert logits.shape == (1, 1000)
    assert re.search(r"\d+ → \d+ nodes", capsys.readouterr().out)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(verb: str) -> None:
    program = "from infuse.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, verb, "--help"], capture_output=True, text=True, check=True)
    assert "--help" in done.stdout


def test_the_table_has_commands() -> None:
    assert {"show", "optimize", "why", "compile", "run", "bench"} <= set(VERBS)
