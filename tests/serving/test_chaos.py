"""The short form of `benchmarks.serving_chaos`: under load, everything goes wrong, and no answer
does.
"""

import json
from pathlib import Path

import pytest

from benchmarks import serving_chaos

pytest.importorskip("boto3")
pytest.importorskip("moto")

pytestmark = pytest.mark.row("S7")


@pytest.mark.timeout(600)
def test_chaos_spoils_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "chaos.json"
    few = {"requests": 5000, "swaps": 2, "kills": 3, "rollouts": 2, "connections": 4}
    options = [word for name, count in few.items() for word in (f"--{name}", str(count))]
    status = serving_chaos.main([*options, "--json", str(path)])
    found = json.loads(path.read_text())
    assert found["requests"] >= 5000
    assert (found["wrong"], found["lost"]) == (0, 0)
    assert (found["swaps"], found["kills"], found["exit_status"]) == (2, 3, 0)
    states = [(rollout["kind"], rollout["state"]) for rollout in found["rollouts"]]
    assert states == [("good", "promoted"), ("failing", "rolled_back")]
    assert not [kind for kind in found["errors"] if kind.startswith(("swap", "steady"))], found[
        "errors"
    ]
    assert status == 0
