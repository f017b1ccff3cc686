"""Labels, splits and shadows: what they resolve to, what they keep loaded, and what is refused with
which words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from infuse.errors import (
    ConfigurationError,
    InfuseError,
    NotFoundError,
    OptionError,
    UnavailableError,
)
from infuse.serving.control.model_config import Canary, ModelConfig, VersionPolicy
from infuse.serving.control.rollout import Traffic
from infuse.serving.messages import InferRequest, Outcome
from tests.serving.rollout_tools import FAILURE, Stage, response

pytestmark = pytest.mark.row("S3")


def ask(version: str = "", sticky: str = "") -> InferRequest:
    return InferRequest("digits", version, sticky=sticky)


def test_numbers_and_labels_are_resolved() -> None:
    traffic = Stage(ModelConfig(labels={"stable": 1, "next": 3}), {1, 2}).traffic
    assert (
        traffic.selection.resolve("2"),
        traffic.selection.resolve("stable"),
        traffic.selection.resolve(""),
    ) == (2, 1, 2)
    assert (
        traffic.selection.choose(ask("stable")),
        traffic.selection.choose(ask("2")),
        traffic.selection.choose(ask()),
    ) == (
        1,
        2,
        2,
    )


@pytest.mark.parametrize(
    "name", ["9", "0", "-1", "007", "1.0", "v1", " 1", "¹", "nothing", "9" * 5000, "1" + "0" * 30]
)
def test_what_is_not_there_is_not_found(name: str) -> None:
    traffic = Stage(ModelConfig(labels={"stable": 1})).traffic
    with pytest.raises(NotFoundError) as caught:
        traffic.selection.choose(ask(name))
    assert "model 'digits'" in str(caught.value)
    assert "its versions are 1, 2, 3, 4" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_is_known_but_not_loaded_is_unavailable() -> None:
    stage = Stage(ModelConfig(labels={"next": 3, "far": 77}))
    for name, number in (("2", 2), ("next", 3), ("far", 77)):
        with pytest.raises(
            UnavailableError, match=rf"version {number} is not loaded\. Hint: loaded are 1\."
        ):
            stage.traffic.selection.choose(ask(name))
    stage.loaded.clear()
    with pytest.raises(UnavailableError, match="no version is loaded"):
        stage.traffic.selection.choose(ask())


def test_labels_move_to_loaded_versions_only() -> None:
    stage = Stage(ModelConfig(), {1, 2})
    stage.traffic.routing.set_label("stable", 1)
    stage.traffic.routing.set_label("stable", 2)
    assert stage.traffic.selection.resolve("stable") == 2
    with pytest.raises(UnavailableError, match="version 3 is not loaded"):
        stage.traffic.routing.set_label("stable", 3)
    with pytest.raises(NotFoundError, match="there is no version 9"):
        stage.traffic.routing.set_label("stable", 9)
    assert stage.traffic.selection.resolve("stable") == 2
    stage.traffic.routing.remove_label("stable")
    with pytest.raises(NotFoundError, match=r"no version or label 'stable'.*its labels none"):
        stage.traffic.selection.resolve("stable")
    assert stage.kinds() == ["label_set", "label_set", "label_removed"]


Deed = Callable[[Traffic], Any]
REFUSALS: list[tuple[Deed, type[InfuseError], str]] = [
    (
        lambda it: it.routing.set_label("1", 1),
        OptionError,
        "'1' is not a label. Hint: a label begins with a letter",
    ),
    (lambda it: it.routing.set_label("", 1), OptionError, "'' is not a label"),
    (lambda it: it.routing.set_label("a b", 1), OptionError, "'a b' is not a label"),
    (lambda it: it.routing.set_label("x" * 65, 1), OptionError, "is not a label"),
    (lambda it: it.routing.remove_label("none"), NotFoundError, "there is no label 'none'"),
    (
        lambda it: it.routing.remove_label("stable"),
        OptionError,
        "the split uses the label 'stable'",
    ),
    (lambda it: it.routing.remove_label("copy"), OptionError, "the shadow uses the label 'copy'"),
    (
        lambda it: it.set_split({"1": -1}),
        OptionError,
        "the split of '1' must be between 0 and 1e+09, found -1",
    ),
    (
        lambda it: it.set_split({"1": math.nan}),
        OptionError,
        "must be between 0 and 1e+09, found nan",
    ),
    (
        lambda it: it.set_split({"1": math.inf}),
        OptionError,
        "must be between 0 and 1e+09, found inf",
    ),
    (lambda it: it.set_split({"1": 0, "2": 0}), OptionError, "the weights of a split are all 0"),
    (lambda it: it.set_split({"old": 1}), NotFoundError, "no version or label 'old'"),
    (lambda it: it.set_split({"3": 1}), UnavailableError, "version 3 is not loaded"),
    (
        lambda it: it.routing.set_shadow({"2": 1.5}),
        OptionError,
        "the shadow of '2' must be between 0 and 1, found 1.5",
    ),
    (lambda it: it.routing.set_shadow({"3": 0.5}), UnavailableError, "version 3 is not loaded"),
]


@pytest.mark.parametrize(
    ("deed", "kind", "words"), REFUSALS, ids=[words for _, _, words in REFUSALS]
)
def test_a_refused_change_changes_nothing(deed: Deed, kind: type[InfuseError], words: str) -> None:
    config = ModelConfig(labels={"stable": 1, "copy": 2}, split={"stable": 1}, shadow={"copy": 0.5})
    stage = Stage(config, {1, 2})
    before = stage.traffic.snapshot()
    with pytest.raises(kind, match=re.escape(words)):
        deed(stage.traffic)
    assert stage.traffic.snapshot() == before
    assert stage.kinds() == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ModelConfig(labels={"2": 1}), "labels: '2' is not a label"),
        (ModelConfig(split={"stable": 1}), "split: 'stable' is neither a version nor a label"),
        (ModelConfig(shadow={"stable": 1}), "shadow: 'stable' is neither"),
        (ModelConfig(split={"1": 0}), "split: the weights are all 0"),
        (ModelConfig(split={"1": math.inf}), "split: the weight of '1' must be finite"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config: ModelConfig, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        Stage(config)
    stage = Stage(ModelConfig(labels={"stable": 1}, split={"stable": 1}))
    before = stage.traffic.snapshot()
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        stage.traffic.configure(config)
    assert stage.traffic.snapshot() == before


def test_a_split_goes_around_versions_that_are_not_loaded() -> None:
    stage = Stage(ModelConfig(split={"1": 1, "2": 1}), {1, 2, 3})
    assert set(stage.send(50)) == {1, 2}
    stage.loaded.remove(2)
    assert set(stage.send(50)) == {1}
    stage.loaded.remove(1)
    with pytest.raises(UnavailableError, match="no version of the split is loaded: 1, 2"):
        stage.traffic.selection.choose(ask())
    assert stage.traffic.describe()["shares"] == {}


def test_no_split_means_the_latest_again() -> None:
    stage = Stage(ModelConfig(split={"1": 1}), {1, 2})
    assert set(stage.send(5)) == {1}
    stage.traffic.set_split({})
    assert set(stage.send(5)) == {2}
    assert stage.kinds() == ["split_set"]


def test_weights_of_a_label_and_of_its_number_add_up() -> None:
    stage = Stage(ModelConfig(labels={"stable": 1}, split={"stable": 1, "1": 1, "2": 2}), {1, 2})
    assert stage.traffic.describe()["shares"] == {"1": 0.5, "2": 0.5}


def test_named_versions_stay_loaded() -> None:
    config = ModelConfig(
        labels={"stable": 1, "gone": 9}, split={"stable": 1, "2": 0}, shadow={"3": 0.1}
    )
    assert Stage(config, {1, 2, 3}).traffic.pinned() == {1, 2, 3}
    assert Stage(ModelConfig(), {1, 2, 3}).traffic.pinned() == frozenset()


def test_shadows_get_their_part_and_never_the_chosen_one() -> None:
    stage = Stage(ModelConfig(shadow={"1": 1.0, "2": 0.25, "3": 0.0, "4": 1.0}), {1, 2, 3})
    copies = [tuple(stage.traffic.selection.shadows(ask(), 1)) for _ in range(2000)]
    assert set(copies) == {(), (2,)}
    assert 400 < copies.count((2,)) < 600
    assert stage.traffic.selection.shadows(ask("2"), 2) == ()
    assert set(map(tuple, (stage.traffic.selection.shadows(ask(), 3) for _ in range(100)))) == {
        (1,),
        (1, 2),
    }
    stage.traffic.routing.set_shadow({})
    assert list(stage.traffic.selection.shadows(ask(), 1)) == []


def test_what_was_set_by_hand_stays_until_the_configuration_changes_it() -> None:
    stage = Stage(
        ModelConfig(labels={"stable": 1, "old": 1}, split={"1": 1}, shadow={"2": 0.5}), {1, 2, 3}
    )
    traffic = stage.traffic
    traffic.routing.set_label("stable", 2)
    traffic.routing.set_label("mine", 3)
    traffic.set_split({"2": 1})
    traffic.routing.set_shadow({"3": 0.5})
    traffic.configure(
        ModelConfig(labels={"stable": 1, "new": 1}, split={"1": 1}, shadow={"2": 1.0})
    )
    found = traffic.describe()
    assert found["labels"] == {"stable": 2, "mine": 3, "new": 1}
    assert found["split"] == {"2": 1}
    assert found["shadow"] == {"2": 1.0}
    traffic.configure(ModelConfig(labels={"stable": 3}, split={"3": 1}))
    found = traffic.describe()
    assert found["labels"] == {"stable": 3, "mine": 3}
    assert (found["split"], found["shadow"]) == ({"3": 1}, {})


def test_a_changed_policy_ends_what_a_rollback_settled_on() -> None:
    stage = Stage(ModelConfig(), {1, 2, 3})
    stage.traffic.rollouts.rollback("worse")
    assert (stage.traffic.selection.resolve(""), stage.traffic.pinned()) == (2, {2})
    stage.traffic.configure(ModelConfig(version_policy=VersionPolicy(specific=(1,))))
    assert stage.traffic.pinned() == frozenset()


def test_outcomes_are_counted_by_version() -> None:
    stage = Stage(ModelConfig(split={"1": 1, "2": 1}), {1, 2})
    stage.send(100, 0.01, {1: FAILURE}, v2=0.1)
    windows = stage.traffic.describe()["windows"]
    assert windows["1"]["error_rate"] == 1.0
    assert windows["1"]["p50_ms"] is None
    assert windows["2"]["error_rate"] == 0.0
    assert windows["2"]["p99_ms"] == pytest.approx(100, rel=0.05)
    stage.loaded.remove(1)
    stage.tick()
    assert set(stage.traffic.describe()["windows"]) == {"2"}
    stage.traffic.observe(Outcome(ask(), 1, None, FAILURE))
    assert set(stage.traffic.describe()["windows"]) == {"2"}


def test_shadows_are_compared_outside_of_a_rollout_too() -> None:
    stage = Stage(ModelConfig(shadow={"2": 1.0}, canary=Canary(max_drift=0.5)), {1, 2})
    stage.traffic.compare(2, response(1, [1.0]), response(2, [1.4]))
    stage.traffic.compare(2, response(1, [1.0]), response(2, [1.6]))
    stage.traffic.compare(2, response(1, [1.0]), FAILURE)
    stage.traffic.compare(2, response(1, [1.0]), UnavailableError("it drains"))
    stage.traffic.compare(3, response(1, [1.0]), FAILURE)
    found = stage.traffic.describe()["windows"]["2"]
    assert (found["compared"], found["drifted"], found["requests"]) == (3, 2, 0)
