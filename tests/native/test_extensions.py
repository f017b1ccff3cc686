"""Operators, rules and passes of a user take part like the project's own, from file to native
code.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contributing import ROOT


@pytest.mark.row("C8")
def test_a_users_operator_rule_and_pass_take_part(tmp_path: Path) -> None:
    # A process of its own: what it registers must not reach the tests of the project's operators.
    command = [sys.executable, str(Path(__file__).with_name("extension.py")), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["kinds"] == ["Bump", "Bump"]
    assert answer["fired"]["FuseBump"] == 1
    assert "2 nodes" in answer["notes"]
    assert max(answer["errors"]) < 1e-6
