"""Objectives: budgets and burn rates beside sums over all requests, alerts that begin and end."""

from __future__ import annotations

import random
from concurrent.futures import CancelledError

import pytest

from infuse.errors import (
    ConfigurationError,
    InputError,
    ModelFailureError,
    OverloadError,
    UnsupportedRequestError,
)
from infuse.serving.control.model_config import Objective
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.telemetry.objectives import Objectives, Tracker
from infuse.serving.messages import InferRequest, Outcome, Timeline

pytestmark = pytest.mark.row("S6")


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _outcome(
    milliseconds: float = 1, error: Exception | None = None, shadow: bool = False
) -> Outcome:
    line = Timeline(1000, finished=1000 + int(milliseconds * 1e6))
    return Outcome(InferRequest("net", timeline=line), 1, None, error, shadow=shadow)


def _objectives(**fields: object) -> tuple[Objectives, Journal, _Clock]:
    clock, journal = _Clock(), Journal()
    objectives = Objectives(journal, clock)
    objectives.set("net", [Objective(name="fast", **fields)])  # type: ignore[arg-type]
    return objectives, journal, clock


def _events(journal: Journal) -> list[str]:
    return [event.kind for event in journal.recent()]


@pytest.mark.parametrize("seed", range(4))
def test_burn_rates_beside_sums(seed: int) -> None:
    generator, clock = random.Random(seed), _Clock()
    objective = Objective(name="fast", target=0.9, latency_ms=100, window_seconds=1200)
    tracker = Tracker("net", objective, clock)
    seen: list[tuple[int, bool]] = []
    for _ in range(3000):
        clock.now += generator.choice((0.01, 0.5, 5, 5, 400 if generator.random() < 0.01 else 1))
        bad = generator.random() < 0.2
        tracker.count(0.2 if bad else 0.05, True)
        seen.append((int(clock.now / 10), bad))
        last = seen[-1][0]
        for rate, slots in zip(tracker.burn_rates(), (10, 120), strict=True):
            inside = [bad for slot, bad in seen[-2000:] if slot > last - slots]
            assert rate == pytest.approx(sum(inside) / len(inside) / 0.1)


def test_an_alert_begins_and_ends() -> None:
    objectives, journal, clock = _objectives(target=0.99, window_seconds=1200, burn_rate=2)
    for _ in range(1000):
        clock.now += 1
        objectives.observe(_outcome())
    assert objectives.as_list()[0]["budget_left"] == 1
    for _ in range(30):
        objectives.observe(_outcome(error=ModelFailureError("it crashed")))
    assert _events(journal) == ["objective_burning"]
    (entry,) = objectives.as_list()
    assert (entry["state"], entry["bad"], entry["requests"]) == ("burning", 30, 1030)
    assert entry["budget_left"] == 0
    clock.now += 101
    objectives.check()
    assert _events(journal) == ["objective_burning", "objective_met"]
    assert objectives.as_list()[0]["state"] == "ok"
    assert objectives.as_list()[0]["burn_rate_long"] == pytest.approx(30 / 1030 / 0.01)
    clock.now += 1200
    assert objectives.as_list()[0]["requests"] == 0


def test_a_blink_in_a_long_good_time_is_no_alert() -> None:
    objectives, journal, clock = _objectives(target=0.9, window_seconds=1200)
    for _ in range(1100):
        clock.now += 1
        objectives.observe(_outcome())
    for _ in range(60):
        objectives.observe(_outcome(error=OverloadError("full")))
    short, long = (objectives.as_list()[0][key] for key in ("burn_rate_short", "burn_rate_long"))
    assert short > 2 > long
    assert _events(journal) == []


def test_few_requests_say_nothing() -> None:
    objectives, journal, _ = _objectives()
    for _ in range(9):
        objectives.observe(_outcome(error=OverloadError("full")))
    assert _events(journal) == []
    objectives.observe(_outcome(error=OverloadError("full")))
    assert _events(journal) == ["objective_burning"]


def test_slow_answers_are_bad_and_callers_errors_do_not_count() -> None:
    objectives, _, _ = _objectives(latency_ms=10)
    objectives.observe(_outcome(9.9))
    objectives.observe(_outcome(10.1))
    objectives.observe(_outcome(1, InputError("wrong shape")))
    objectives.observe(_outcome(1, UnsupportedRequestError("no such call")))
    objectives.observe(_outcome(50, shadow=True))
    (entry,) = objectives.as_list()
    assert (entry["requests"], entry["bad"]) == (2, 1)


def test_a_target_of_all_has_no_budget() -> None:
    objectives, journal, _ = _objectives(target=1)
    for _ in range(20):
        objectives.observe(_outcome())
    assert objectives.as_list()[0]["budget_left"] == 1
    objectives.observe(_outcome(error=ModelFailureError("it crashed")))
    (entry,) = objectives.as_list()
    assert (entry["budget_left"], entry["burn_rate_long"], entry["state"]) == (0, None, "burning")
    assert _events(journal) == ["objective_burning"]


def test_changes_keep_what_stays() -> None:
    objectives, _, _ = _objectives()
    objectives.observe(_outcome())
    slow = Objective(name="slow", latency_ms=500)
    objectives.set("net", [Objective(name="fast"), slow])
    objectives.observe(_outcome())
    assert [entry["requests"] for entry in objectives.as_list()] == [2, 1]
    objectives.set("net", [Objective(name="slow", latency_ms=400)])
    assert [entry["requests"] for entry in objectives.as_list()] == [0]
    with pytest.raises(ConfigurationError, match="same name"):
        objectives.set("net", [slow, slow])
    objectives.remove("net")
    objectives.observe(_outcome())
    assert objectives.as_list() == list(objectives.readings()) == []


def test_readings() -> None:
    objectives, _, _ = _objectives(target=0.5)
    for error in (None, OverloadError("full"), None, None):
        objectives.observe(_outcome(error=error))
    values = {(name, *labels): value for name, value, labels in objectives.readings()}
    assert values == {
        ("infuse_slo_target", "net", "fast"): 0.5,
        ("infuse_slo_burn_rate", "net", "fast", "short"): 0.5,
        ("infuse_slo_burn_rate", "net", "fast", "long"): 0.5,
        ("infuse_slo_budget_left", "net", "fast"): 0.5,
        ("infuse_slo_burning", "net", "fast"): 0,
    }


def test_a_caller_that_gave_up_does_not_count() -> None:
    objectives, _, _ = _objectives()
    objectives.observe(_outcome(1, CancelledError("gone")))
    assert objectives.as_list()[0]["requests"] == 0
