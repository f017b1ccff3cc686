"""Any order of deeds and accidents leaves a model's traffic in a state that makes sense and
survives a restart.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from infuse.errors import InfuseError, UnavailableError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.messages import InferRequest
from tests.serving.rollout_tools import CANARY, FAILURE, Stage, response

VERSIONS = st.integers(1, 5)


class Life(RuleBasedStateMachine):
    """A server's life as one model sees it."""

    @initialize(canary=st.booleans(), split=st.booleans())
    def begin(self, canary: bool, split: bool) -> None:
        config = ModelConfig(
            canary=CANARY if canary else None,
            split={"1": 1, "2": 1} if split else {},
            labels={"stable": 1},
        )
        self.stage = Stage(config, {1, 2}, {1, 2})
        self.files: dict[int, str] = {1: "files 1", 2: "files 2"}

    @rule(number=VERSIONS, content=st.sampled_from(["a", "b"]))
    def arrive(self, number: int, content: str) -> None:
        self.files[number] = content
        self.stage.arrive(number, content)

    @rule(number=VERSIONS)
    def unload(self, number: int) -> None:
        if number not in self.stage.traffic.pinned():
            self.stage.loaded.discard(number)

    @rule(number=VERSIONS)
    def crash(self, number: int) -> None:
        self.stage.loaded.discard(number)
        self.stage.traffic.rollouts.failed(number, "its workers died")

    @rule(number=VERSIONS)
    def delete(self, number: int) -> None:
        self.stage.loaded.discard(number)
        self.stage.known.discard(number)

    @rule(
        number=VERSIONS,
        deed=st.sampled_from(["start", "promote", "rollback", "pause", "resume", "label", "split"]),
    )
    def operate(self, number: int, deed: str) -> None:
        traffic = self.stage.traffic
        deeds: dict[str, Any] = {
            "start": lambda: traffic.start_rollout(number),
            "promote": traffic.rollouts.promote,
            "rollback": lambda: traffic.rollouts.rollback("asked for"),
            "pause": traffic.rollouts.pause,
            "resume": traffic.rollouts.resume,
            "label": lambda: traffic.routing.set_label("stable", number),
            "split": lambda: traffic.set_split({"stable": 1, str(number): 2} if number > 2 else {}),
        }
        before = traffic.snapshot()
        try:
            deeds[deed]()
        except InfuseError:
            assert traffic.snapshot() == before

    @rule(count=st.integers(1, 300), bad=st.booleans(), seconds=st.floats(0, 15))
    def serve(self, count: int, bad: bool, seconds: float) -> None:
        try:
            new = self.stage.rollout["to"] if self.stage.rollout else 0
            self.stage.send(count, errors={new: FAILURE} if bad else None)
        except UnavailableError:
            assert self.stage.traffic.describe()["shares"] == {}
        self.stage.tick(seconds)

    @rule(count=st.integers(1, 60), seconds=st.floats(0, 30), left=st.booleans())
    def hang(self, count: int, seconds: float, left: bool) -> None:
        begun = []
        try:
            begun += list(self.stage.begin(count))
        except UnavailableError:
            assert self.stage.traffic.describe()["shares"] == {}
        for _ in range(12):
            self.stage.tick(seconds / 12)
        for asked, version in begun if left else ():
            self.stage.finish(asked, version, seconds, FAILURE)

    @rule()
    def restart(self) -> None:
        plain = json.loads(json.dumps(self.stage.traffic.snapshot()))
        pinned, shares = self.stage.traffic.pinned(), self.stage.traffic.describe()["shares"]
        self.stage.traffic = self.stage.again()
        self.stage.traffic.restore(plain)
        for number in self.stage.loaded:
            self.stage.traffic.version_arrived(number, self.files[number], initial=True)
        assert self.stage.traffic.pinned() == pinned
        assert self.stage.traffic.describe()["shares"] == shares

    @invariant()
    def shares_are_of_loaded_versions_and_one_altogether(self) -> None:
        found = self.stage.traffic.describe()
        json.dumps(found, allow_nan=False)
        shares = {int(number): share for number, share in found["shares"].items()}
        assert shares.keys() <= self.stage.loaded
        assert not shares or sum(shares.values()) == pytest.approx(1)
        rollout = found["rollout"]
        active = rollout is not None and rollout["state"] in ("running", "paused")
        assert not {int(number) for number in found["refused"]} & shares.keys()
        assert not (active and str(rollout["to"]) in found["refused"])
        assert self.stage.traffic.pinned() <= self.stage.known

    @invariant()
    def requests_go_where_the_shares_say(self) -> None:
        shares = self.stage.traffic.describe()["shares"]
        for key in ("", "a", "b", "c"):
            asked = InferRequest("digits", sticky=key)
            if not shares:
                with pytest.raises(UnavailableError):
                    self.stage.traffic.selection.choose(asked)
                continue
            chosen = self.stage.traffic.selection.choose(asked)
            assert shares[str(chosen)] > 0
            assert not key or chosen == self.stage.traffic.selection.choose(asked)
            self.stage.traffic.compare(chosen, response(1, [1.0]), response(2, [1.0]))


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestLife.pytestmark = [pytest.mark.row("S3")]  # type: ignore[attr-defined]
