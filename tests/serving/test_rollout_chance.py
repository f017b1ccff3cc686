"""Splits are even and sticky: measured on many keys, bounds at five standard deviations."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings, strategies as st

from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.rollout.chance import pick, pick_for, point
from infuse.serving.messages import InferRequest
from tests.serving.rollout_tools import CANARY, Stage

pytestmark = pytest.mark.row("S3")

KEYS = [f"user-{number}" for number in range(1500)]
weights = st.dictionaries(st.integers(1, 9), st.floats(0.05, 20), min_size=2, max_size=5)


def within(count: int, trials: int, share: float) -> bool:
    return abs(count - trials * share) <= 5 * math.sqrt(trials * share * (1 - share)) + 1


@settings(deadline=None, max_examples=25, derandomize=True)
@given(weights)
def test_versions_get_their_share_of_keys(split: dict[int, float]) -> None:
    entries = sorted(split.items())
    found = [pick_for(key, "m", entries) for key in KEYS]
    for version, weight in entries:
        assert within(found.count(version), len(KEYS), weight / sum(split.values()))


@settings(deadline=None, max_examples=25, derandomize=True)
@given(weights)
def test_versions_get_their_share_of_chance(split: dict[int, float]) -> None:
    entries, draw = sorted(split.items()), random.Random(3).random
    found = [pick(draw(), entries) for _ in range(3000)]
    for version, weight in entries:
        assert within(found.count(version), len(found), weight / sum(split.values()))


@settings(deadline=None, max_examples=25, derandomize=True)
@given(weights, st.floats(1.1, 10), st.data())
def test_a_raised_weight_only_wins_keys(
    split: dict[int, float], factor: float, data: st.DataObject
) -> None:
    raised = data.draw(st.sampled_from(sorted(split)))
    before, after = sorted(split.items()), sorted({**split, raised: split[raised] * factor}.items())
    for key in KEYS[:400]:
        old, new = pick_for(key, "m", before), pick_for(key, "m", after)
        assert new in (old, raised)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(weights, st.data())
def test_a_version_that_leaves_gives_away_its_keys_alone(
    split: dict[int, float], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(split)))
    before = sorted(split.items())
    after = [entry for entry in before if entry[0] != gone]
    for key in KEYS[:400]:
        old = pick_for(key, "m", before)
        assert old == gone or pick_for(key, "m", after) == old


@given(st.text(), st.text(max_size=5))
def test_a_point_is_the_same_every_time(key: str, salt: str) -> None:
    assert point(key, salt) == point(key, salt)
    assert 0 <= point(key, salt) < 1


def test_points_are_even_and_depend_on_the_salt() -> None:
    places = [point(key, "a") for key in KEYS]
    tenths = [int(place * 10) for place in places]
    assert all(within(tenths.count(tenth), len(KEYS), 0.1) for tenth in range(10))
    both = sum(point(key, "a") < 0.5 and point(key, "b") < 0.5 for key in KEYS)
    assert within(both, len(KEYS), 0.25)


def test_a_key_that_no_encoding_has_is_hashed_too() -> None:
    assert 0 <= point("\ud800", "a") < 1


def test_pick_reaches_both_ends() -> None:
    entries = [(1, 1.0), (2, 3.0)]
    assert pick(0.0, entries) == 1
    assert pick(0.2499, entries) == 1
    assert pick(0.2501, entries) == 2
    assert pick(1 - 2**-53, entries) == 2


def test_keys_that_saw_the_new_version_keep_it_as_its_share_rises() -> None:
    stage = Stage(ModelConfig(canary=CANARY))
    stage.arrive(2)
    moved: set[str] = set()
    for share in CANARY.steps:
        there = {
            key
            for key in KEYS
            if stage.traffic.selection.choose(InferRequest("digits", sticky=key)) == 2
        }
        assert moved <= there
        assert within(len(there), len(KEYS), share)
        moved = there
        stage.send(400)
        stage.tick(CANARY.step_seconds)
    assert moved == set(KEYS)


def test_a_rollout_over_a_split_leaves_the_other_keys_where_they_were() -> None:
    stage = Stage(ModelConfig(split={"1": 2, "2": 1}, canary=CANARY), {1, 2})

    def all_keys() -> dict[str, int]:
        return {
            key: stage.traffic.selection.choose(InferRequest("digits", sticky=key)) for key in KEYS
        }

    before = all_keys()
    stage.arrive(3)
    after = all_keys()
    assert {number for key, number in after.items() if number != before[key]} == {3}
    assert within(list(after.values()).count(3), len(KEYS), 0.1)


def test_requests_without_a_key_follow_the_split() -> None:
    stage = Stage(ModelConfig(split={"1": 0.8, "2": 0.15, "3": 0.05, "4": 0}), {1, 2, 3, 4})
    found = stage.send(4000)
    assert all(
        within(found.count(number), 4000, share)
        for number, share in ((1, 0.8), (2, 0.15), (3, 0.05))
    )
    assert 4 not in found
