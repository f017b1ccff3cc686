"""The backend tests of ONNX, evenly chosen: all pass. `python -m benchmarks.conformance` runs them
all.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks.conformance import EXPECTED, expected, main, reason_class
from benchmarks.conformance_cases import Case, load_cases
from benchmarks.conformance_worker import CRASHED, PASSED, WRONG, Worker, run

SAMPLE = 60


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return load_cases()


@pytest.mark.row("C1")
@pytest.mark.timeout(600)
def test_a_sample_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, cache = tmp_path / "found.json", os.environ["INFUSE_CACHE"]
    monkeypatch.setenv("INFUSE_CACHE", cache)  # it is changed, and would stay so
    arguments = ["--level", "all", "--sample", str(SAMPLE), "--json", str(file)]
    assert main([*arguments, "--cache", cache]) == 0, capsys.readouterr().out
    found = json.loads(file.read_text())
    answers = found["answers"]["infuse all"]
    assert found["summary"]["tests"] >= SAMPLE
    assert {name for name, answer in answers.items() if answer["outcome"] != PASSED} <= set(
        filter(expected, answers)
    )
    assert found["summary"]["engines"]["infuse all"]["native"] >= 0.9 * found["summary"]["tests"]
    assert found["machine"]["processor"]


def test_what_need_not_pass_is_there(cases: dict[str, Case]) -> None:
    for glob in EXPECTED:
        assert any(expected(name) == EXPECTED[glob] for name in cases), glob


def test_a_hang_and_a_crash_cost_one_test(cases: dict[str, Case]) -> None:
    worker, case = Worker("reference", 60), cases["node/test_abs"]
    try:
        assert worker.ask(case).outcome == PASSED
        assert worker.process is not None
        worker.process.send_signal(signal.SIGSTOP)
        worker.limit = 0.1
        hung = worker.ask(case)
        assert (hung.outcome, hung.reason) == (CRASHED, "no answer for 0.1 seconds")
        worker.limit = 60
        assert worker.ask(case).outcome == PASSED
        assert worker.process is not None
        worker.process.kill()
        died = worker.ask(case)
        assert (died.outcome, died.reason) == (CRASHED, "the process ended with status -9")
        assert worker.ask(case).outcome == PASSED
    finally:
        worker.close()


def test_a_wrong_result_is_seen(cases: dict[str, Case]) -> None:
    case = cases["node/test_add"]
    case.test.data_sets[0][1][0][0, 0, 0] += 1
    try:
        answer = run(case, "reference")
    finally:
        case.test.data_sets[0][1][0][0, 0, 0] -= 1
    assert answer.outcome == WRONG
    assert "Mismatched elements: 1 / 60" in answer.reason


def test_reasons_of_one_kind_are_one() -> None:
    assert reason_class("shape (2, 3) in place of (4,)") == reason_class(
        "shape (7,) in place of (1, 2)"
    )
    assert reason_class("operator 'A' of opset 3") == reason_class("operator 'B' of opset 12")
    assert reason_class("other strings") != reason_class("nothing in place of a tensor")


def test_unknown_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--level", "most"], ["--against", "nobody"], ["--only", "test_no_such_thing"]):
        with pytest.raises(SystemExit):
            main(wrong)
    assert "no such level: most" in capsys.readouterr().err
