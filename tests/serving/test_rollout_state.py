"""What survives a restart: the snapshot of a model, and the file of all of them."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.rollout import StateFile, Traffic
from infuse.serving.messages import InferRequest
from tests.serving.rollout_tools import CANARY, FAILURE, Stage, response, running

pytestmark = pytest.mark.row("S3")


def restarted(stage: Stage, folder: Path) -> Stage:
    """The same stage after its server has been stopped and started, state and all."""
    file = StateFile(folder / "state.json")
    file.save({"digits": stage.traffic.snapshot()})
    next_stage = Stage(stage.config, set(), set(stage.known), now=50.0)
    next_stage.traffic.restore(StateFile(file.path).load()["digits"])
    wanted = next_stage.traffic.pinned()
    for number in sorted(wanted or stage.loaded):
        next_stage.loaded.add(number)
        next_stage.traffic.version_arrived(number, f"files {number}", initial=True)
    return next_stage


def test_a_rollout_goes_on_at_its_step(tmp_path: Path) -> None:
    stage = running(labels={"stable": 1})
    stage.send(600)
    stage.tick(10)
    stage.tick(4)
    after = restarted(stage, tmp_path)
    assert after.loaded == {1, 2}
    assert (after.rollout["state"], after.rollout["step"], after.rollout["share"]) == (
        "running",
        1,
        0.5,
    )
    assert after.rollout["windows"]["waits_for"] == "6 s of the step are left"
    after.send(100)
    assert after.kinds(5.9) == []
    assert after.kinds(0.2) == ["step"]
    after.send(100, errors={2: FAILURE})
    assert after.kinds(0.1) == ["rolled_back"]


def test_time_does_not_pass_while_the_new_version_still_loads(tmp_path: Path) -> None:
    after = restarted(running(), tmp_path)
    after.loaded = {1}
    after.tick(100)
    assert after.rollout["windows"]["waits_for"] == "10 s of the step are left"
    after.traffic.rollouts.failed(2, "it cannot be read")
    assert after.kinds() == ["rolled_back"]


def test_a_pause_and_comparisons_are_kept(tmp_path: Path) -> None:
    stage = running()
    stage.traffic.rollouts.pause()
    stage.traffic.compare(2, response(1, [1.0]), response(2, [2.0]))
    after = restarted(stage, tmp_path)
    assert (after.rollout["state"], after.rollout["compared"], after.rollout["drifted"]) == (
        "paused",
        1,
        1,
    )


def test_a_rolled_back_version_stays_out(tmp_path: Path) -> None:
    stage = running()
    stage.traffic.rollouts.rollback("worse")
    after = restarted(stage, tmp_path)
    assert after.loaded == {1}
    after.arrive(2)
    assert after.kinds() == []
    assert set(after.send(20)) == {1}
    assert after.traffic.describe()["refused"] == {"2": "worse"}
    again = restarted(after, tmp_path)
    again.arrive(2, "other files")
    assert again.kinds() == ["rollout_started"]


def test_a_canary_whose_files_changed_meanwhile_begins_again(tmp_path: Path) -> None:
    stage = running()
    stage.send(600)
    stage.tick(10)
    after = Stage(stage.config, set(), {1, 2})
    after.traffic.restore(stage.traffic.snapshot())
    for number, fingerprint in ((1, "files 1"), (2, "other files")):
        after.loaded.add(number)
        after.traffic.version_arrived(number, fingerprint, initial=True)
    assert (after.rollout["step"], after.rollout["from"]) == (0, [1])


def test_what_was_set_by_hand_is_kept_until_the_configuration_changes_it(tmp_path: Path) -> None:
    stage = Stage(ModelConfig(labels={"stable": 1}, split={"1": 1}), {1, 2})
    stage.traffic.routing.set_label("stable", 2)
    stage.traffic.set_split({"1": 1, "2": 3})
    stage.traffic.routing.set_shadow({"2": 0.5})
    after = restarted(stage, tmp_path).traffic.describe()
    assert (after["labels"], after["split"], after["shadow"]) == (
        {"stable": 2},
        {"1": 1, "2": 3},
        {"2": 0.5},
    )
    stage.config = ModelConfig(labels={"stable": 3}, split={"2": 1})
    after = restarted(stage, tmp_path).traffic.describe()
    assert (after["labels"], after["split"], after["shadow"]) == (
        {"stable": 3},
        {"2": 1},
        {"2": 0.5},
    )


def test_a_version_that_waits_gets_its_turn(tmp_path: Path) -> None:
    stage = running()
    stage.arrive(3)
    after = restarted(stage, tmp_path)
    after.traffic.rollouts.promote()
    assert after.kinds()[-1] == "rollout_started"
    assert after.rollout["to"] == 3


def test_a_promotion_can_be_taken_back(tmp_path: Path) -> None:
    stage = running()
    stage.traffic.rollouts.promote()
    after = restarted(stage, tmp_path)
    assert set(after.send(5)) == {2}
    assert after.traffic.rollouts.previous() == (1,)


def test_a_snapshot_is_json_and_restores_to_itself() -> None:
    stage = running(labels={"stable": 1}, shadow={"1": 0.5})
    stage.arrive(3)
    plain = json.loads(json.dumps(stage.traffic.snapshot(), allow_nan=False))
    other = stage.again()
    other.restore(plain)
    assert json.loads(json.dumps(other.snapshot())) == plain
    json.dumps(other.describe(), allow_nan=False)


def test_a_snapshot_shares_nothing_with_the_traffic() -> None:
    stage = running()
    plain = stage.traffic.snapshot()
    before = json.dumps(plain)
    stage.traffic.routing.set_label("stable", 1)
    stage.traffic.rollouts.rollback("worse")
    assert json.dumps(plain) == before


def spoiled(change: dict[str, Any]) -> dict[str, Any]:
    return {**running().traffic.snapshot(), **change}


@pytest.mark.parametrize(
    "plain",
    [
        {},
        spoiled({"settled": "one"}),
        spoiled({"current": {"labels": {"stable": "x"}}}),
        spoiled({"rollout": {"version": 2}}),
        spoiled({"rollout": {"version": 2, "origin": [1], "canary": {"steps": [1, 0.5]}}}),
        spoiled({"seen": {"x": "y"}}),
    ],
)
def test_a_snapshot_that_is_not_understood_is_left(
    plain: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(ModelConfig(labels={"stable": 1}), {1, 2})
    before = stage.traffic.snapshot()
    with caplog.at_level(logging.WARNING, "infuse.serving.rollout"):
        stage.traffic.restore(plain)
    assert "the saved traffic of model digits is not understood" in caplog.text
    assert stage.traffic.snapshot() == before
    assert stage.traffic.selection.choose(InferRequest("digits")) == 2


@pytest.mark.parametrize("step", [-3, 99])
def test_a_step_that_is_not_there_is_the_nearest(step: int) -> None:
    stage = running()
    plain = stage.traffic.snapshot()
    plain["rollout"]["step"] = step
    stage.traffic.restore(plain)
    assert stage.rollout["share"] in (CANARY.steps[0], CANARY.steps[-1])
    assert stage.rollout["step"] == (0 if step < 0 else 2)


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert StateFile(tmp_path / "none.json").load() == {}


def test_a_file_gives_what_was_saved(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "new folder" / "state.json")
    file.save({"a": {"x": 1}})
    file.save({"a": {"x": 2}, "b": {}})
    assert file.load() == {"a": {"x": 2}, "b": {}}
    assert [path.name for path in file.path.parent.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"format": 2, "models": {}}',
        b'{"format": 1}',
        b'{"format": 1, "models": {"a": 1}}',
        b"[" * 100_000,
    ],
    ids=["empty", "cut", "no text", "a list", "later", "no models", "no model", "deep"],
)
def test_a_broken_file_is_set_aside(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = StateFile(tmp_path / "state.json")
    for name in ("state.json.broken", "state.json.broken-1"):
        file.path.write_bytes(content)
        with caplog.at_level(logging.WARNING, "infuse.serving.rollout"):
            assert file.load() == {}
        assert (tmp_path / name).read_bytes() == content
        assert f"is set aside as {name}" in caplog.text
        assert not file.path.exists()
    file.save({"a": {}})
    assert file.load() == {"a": {}}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"state\.json: the state cannot be read: Is a directory"
    ):
        StateFile(tmp_path / "state.json").load()


def test_a_broken_file_that_cannot_be_set_aside_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = StateFile(tmp_path / "state.json")
    file.path.write_bytes(b"{")

    def read_only(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "replace", read_only)
    with pytest.raises(
        ConfigurationError, match=r"is broken .* and cannot be set aside: Read-only file system"
    ):
        file.load()


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = StateFile(tmp_path / "state.json")
    file.save({"a": {"x": 1}})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if call == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "replace", full)
        with pytest.raises(
            ConfigurationError, match="the state cannot be written: No space left on device"
        ):
            file.save({"a": {"x": 2}})
    assert file.load() == {"a": {"x": 1}}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_number_that_json_has_not_is_not_written(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        file.save({"a": {"x": float("nan")}})
    assert not any(tmp_path.iterdir())


def test_restoring_before_anything_is_loaded_asks_for_both_sides() -> None:
    stage = running()
    fresh = Traffic("digits", stage.config, set, lambda: {1, 2, 3})
    fresh.restore(stage.traffic.snapshot())
    assert fresh.pinned() == {1, 2}
