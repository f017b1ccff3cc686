"""Rollouts begun, held, ended, queued and repeated, on a clock that the test moves."""

from __future__ import annotations

import pytest

from infuse.errors import (
    NotFoundError,
    OptionError,
    UnavailableError,
)
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.messages import InferRequest
from tests.serving.rollout_tools import CANARY, FAILURE, SHADOWED, Stage, running

pytestmark = pytest.mark.row("S3")


def promote(stage: Stage) -> None:
    for _ in CANARY.steps:
        stage.send(600)
        stage.tick(CANARY.step_seconds)


def test_pause_holds_the_share_but_not_the_judge() -> None:
    stage = running()
    stage.tick()
    stage.traffic.rollouts.pause()
    stage.send(1000)
    assert stage.kinds(1000) == ["paused"]
    assert (stage.rollout["state"], stage.rollout["share"]) == ("paused", 0.1)
    assert stage.rollout["windows"]["waits_for"] == "it is paused"
    with pytest.raises(OptionError, match="no rollout is running"):
        stage.traffic.rollouts.pause()
    stage.traffic.rollouts.resume()
    assert stage.kinds(9) == ["resumed"]
    assert stage.kinds(1) == ["step"]
    stage.traffic.rollouts.pause()
    stage.send(400, errors={2: FAILURE})
    assert stage.kinds(0.1) == ["paused", "rolled_back"]


def test_a_version_that_is_not_loaded_is_not_promoted() -> None:
    stage = running(canary=Canary(steps=(1.0,), step_seconds=10, min_requests=0))
    stage.tick(10 - 1e-6)
    stage.loaded.remove(2)
    assert stage.kinds(100) == []
    with pytest.raises(UnavailableError, match="version 2 is not loaded"):
        stage.traffic.rollouts.promote()
    stage.loaded.add(2)
    assert stage.kinds(1) == ["promoted"]


def test_before_a_rollback_one_can_ask_where_it_leads() -> None:
    stage = running()
    assert stage.traffic.rollouts.previous() == (1,)
    stage.traffic.rollouts.rollback("worse")
    assert stage.traffic.rollouts.previous() == ()
    stage.traffic.set_split({"1": 1, "2": 1})
    assert stage.traffic.rollouts.previous() == ()
    stage.traffic.set_split({})
    assert stage.traffic.rollouts.previous() == ()
    stage.loaded.clear()
    assert stage.traffic.rollouts.previous() == ()


def test_promotion_by_hand() -> None:
    stage = running()
    stage.traffic.rollouts.promote()
    assert set(stage.send(50)) == {2}
    assert stage.kinds() == ["rollout_started", "promoted"]


def test_refusals() -> None:
    stage = Stage(ModelConfig(canary=CANARY), {1, 2})
    for deed in (
        stage.traffic.rollouts.promote,
        stage.traffic.rollouts.pause,
        stage.traffic.rollouts.resume,
    ):
        with pytest.raises(OptionError, match="model 'digits': no rollout is"):
            deed()
    with pytest.raises(OptionError, match="version 2 serves already, and no other"):
        stage.traffic.start_rollout(2)
    with pytest.raises(UnavailableError, match="version 3 is not loaded"):
        stage.traffic.start_rollout(3)
    with pytest.raises(NotFoundError, match="there is no version 9"):
        stage.traffic.start_rollout(9)
    for steps in ((), (0.5, 0.5), (0.5, 0.1), (0.0,)):
        with pytest.raises(OptionError, match="must be shares that rise"):
            stage.traffic.start_rollout(1, Canary(steps=steps))
    stage.traffic.start_rollout(1)
    with pytest.raises(OptionError, match="a rollout to version 1 is under way"):
        stage.traffic.start_rollout(2)


def test_nothing_to_roll_back_to() -> None:
    with pytest.raises(OptionError, match="there is nothing to roll back to"):
        Stage().traffic.rollouts.rollback("")
    with pytest.raises(OptionError, match=r"nothing to roll back to\. Hint: change the split"):
        Stage(ModelConfig(split={"1": 1, "2": 1}), {1, 2}).traffic.rollouts.rollback("")


def test_a_promoted_version_is_rolled_back_to_the_one_before() -> None:
    stage = running()
    promote(stage)
    stage.loaded.remove(1)
    assert stage.traffic.rollouts.previous() == (1,)
    with pytest.raises(UnavailableError, match="version 1 is not loaded"):
        stage.traffic.rollouts.rollback("second thoughts")
    stage.loaded.add(1)
    stage.traffic.rollouts.rollback("second thoughts")
    assert set(stage.send(50)) == {1}
    assert (stage.rollout["state"], stage.rollout["reason"]) == ("rolled_back", "second thoughts")
    assert stage.traffic.pinned() == {1}


def test_an_older_version_can_be_rolled_out_and_stays() -> None:
    stage = Stage(ModelConfig(), {1, 2})
    stage.traffic.start_rollout(1, CANARY)
    stage.traffic.rollouts.promote()
    assert set(stage.send(20)) == {1}
    assert stage.traffic.pinned() == {1}
    stage.arrive(3)
    assert set(stage.send(20)) == {3}
    assert stage.traffic.pinned() == frozenset()


def test_without_canary_the_latest_serves_at_once() -> None:
    stage = Stage()
    stage.arrive(2)
    assert set(stage.send(10)) == {2}
    assert stage.tick() == []


def test_what_is_loaded_at_the_start_or_alone_or_older_is_not_rolled_out() -> None:
    stage = Stage(ModelConfig(canary=CANARY), {2, 3})
    assert stage.tick() == []
    stage.arrive(1)
    assert stage.tick() == []
    assert set(stage.send(10)) == {3}
    stage.loaded.clear()
    stage.arrive(4)
    assert stage.tick() == []
    assert set(stage.send(10)) == {4}


def test_a_version_that_comes_meanwhile_waits_for_its_turn() -> None:
    stage = running()
    stage.arrive(3)
    assert stage.kinds() == ["rollout_started", "waiting"]
    assert set(stage.send(300)) == {1, 2}
    assert stage.traffic.pinned() == {1, 2, 3}
    stage.traffic.rollouts.promote()
    assert set(stage.send(20)) == {2}
    assert stage.kinds() == ["promoted", "rollout_started"]
    assert (stage.rollout["from"], stage.rollout["to"]) == ([2], 3)


def test_a_version_that_waits_gets_its_turn_after_a_rollback_too() -> None:
    stage = running()
    stage.arrive(3)
    stage.traffic.rollouts.rollback("worse")
    stage.tick()
    assert (stage.rollout["from"], stage.rollout["to"]) == ([1], 3)


def test_a_version_that_goes_while_it_waits_is_forgotten() -> None:
    stage = running()
    stage.arrive(3)
    stage.traffic.rollouts.promote()
    stage.loaded.remove(3)
    stage.tick()
    assert stage.traffic.describe()["waiting"] == 3
    stage.known.remove(3)
    stage.tick()
    assert stage.traffic.describe()["waiting"] is None


def test_a_version_that_fails_while_it_waits_is_out() -> None:
    stage = running()
    stage.arrive(3)
    stage.traffic.rollouts.failed(3, "no memory")
    stage.traffic.rollouts.promote()
    stage.tick()
    assert set(stage.send(20)) == {2}
    assert stage.traffic.describe()["refused"] == {"3": "it failed: no memory"}


def test_a_rolled_back_version_comes_again_only_when_changed_or_asked_for() -> None:
    stage = running()
    stage.traffic.rollouts.rollback("worse")
    stage.arrive(2)
    stage.loaded.remove(1)
    with pytest.raises(UnavailableError, match="only versions that were rolled back are loaded: 2"):
        stage.traffic.selection.choose(InferRequest("digits"))
    stage.loaded.add(1)
    assert set(stage.send(20)) == {1}
    assert stage.kinds() == ["rollout_started", "rolled_back"]
    stage.arrive(2, "other files")
    assert stage.kinds() == ["rollout_started"]
    stage.traffic.rollouts.rollback("worse again")
    stage.traffic.start_rollout(2)
    assert stage.kinds() == ["rolled_back", "rollout_started"]
    assert stage.traffic.describe()["refused"] == {}


def test_a_split_by_hand_accepts_a_rolled_back_version() -> None:
    stage = running()
    stage.traffic.rollouts.rollback("worse")
    stage.traffic.set_split({"1": 1, "2": 1})
    assert set(stage.send(50)) == {1, 2}


def test_a_canary_whose_files_change_begins_again() -> None:
    stage = running()
    stage.send(600)
    stage.tick(10)
    assert stage.rollout["share"] == 0.5
    stage.arrive(2, "other files")
    assert (stage.rollout["share"], stage.rollout["from"]) == (0.1, [1])
    assert stage.rollout["windows"]["new"]["requests"] == 0


def test_a_rollout_over_a_split_ends_it_or_leaves_it() -> None:
    stage = Stage(ModelConfig(split={"1": 3, "3": 1}, canary=CANARY), {1, 3})
    stage.arrive(4)
    assert stage.rollout["from"] == [1, 3]
    assert stage.traffic.describe()["shares"] == pytest.approx({"1": 0.675, "3": 0.225, "4": 0.1})
    stage.traffic.rollouts.rollback("worse")
    assert stage.traffic.describe()["shares"] == {"1": 0.75, "3": 0.25}
    stage.traffic.start_rollout(4)
    stage.traffic.rollouts.promote()
    assert stage.traffic.describe()["shares"] == {"4": 1.0}
    stage.traffic.rollouts.rollback("after all")
    assert stage.traffic.describe()["shares"] == {"1": 0.75, "3": 0.25}


def test_each_side_stands_in_for_the_other() -> None:
    stage = running()
    stage.tick()
    stage.loaded = {2}
    assert set(stage.send(20)) == {2}
    stage.loaded = {1}
    assert set(stage.send(20)) == {1}
    stage.send(500)
    assert stage.kinds(100) == []
    assert stage.rollout["windows"]["waits_for"] == "10 s of the step are left"


def test_a_rollout_copies_requests_of_the_old_side() -> None:
    stage = running(canary=SHADOWED)
    copies = [tuple(stage.traffic.selection.shadows(InferRequest("digits"), 1)) for _ in range(400)]
    assert set(copies) == {(), (2,)}
    assert 150 < copies.count((2,)) < 250
    assert list(stage.traffic.selection.shadows(InferRequest("digits"), 2)) == []


def test_what_is_remembered_of_versions_that_are_gone_is_bounded() -> None:
    stage = running()
    stage.traffic.rollouts.rollback("worse")
    for number in range(10, 1500):
        stage.arrive(number)
        stage.loaded.remove(number)
        stage.known.remove(number)
    plain = stage.traffic.snapshot()
    assert len(plain["seen"]) == 1000
    assert {"1", "2", "1499"} <= plain["seen"].keys()
    assert plain["refused"].keys() == {"2"}
