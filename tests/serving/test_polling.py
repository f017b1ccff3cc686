"""Waiting for what comes at once without sleeping, and for the rest with it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable

import pytest

from infuse.serving.tuning import RETRY_SECONDS
from infuse.serving.workers import polling
from infuse.serving.workers.polling import (
    BusyPoller,
    ContentionDetector,
    InterArrivalMean,
    PollingReceiver,
)
from tests.serving.clock import Clock

pytestmark = pytest.mark.row("S7")


def test_gaps_are_short_once_they_were_for_a_while() -> None:
    gaps = InterArrivalMean(1.0)
    assert not gaps.short
    for _ in range(20):
        gaps.add(0.1)
    assert gaps.short
    assert gaps.mean == pytest.approx(0.1, abs=0.02)
    for _ in range(20):
        gaps.add(1e9)
    assert not gaps.short


def test_without_a_length_nothing_is_short() -> None:
    gaps = InterArrivalMean(0.0)
    gaps.add(0.0)
    assert not gaps.short


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of what stays awake."""
    clock = Clock()
    monkeypatch.setattr(polling, "time", clock)
    return clock


def test_a_vigil_lets_everything_else_run_and_ends(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("os.sched_yield", lambda: clock.advance(0.01))

    async def main() -> int:
        poller = BusyPoller(1000.0)
        poller.expect(0.05)
        poller.expect(0.02)
        turns = 0
        while poller._turning and turns < 100:
            turns += 1
            await asyncio.sleep(0)
        assert not poller._turning
        return turns

    assert 5 <= asyncio.run(main()) <= 7


def test_a_request_is_waited_for_where_the_last_ones_came_soon(clock: Clock) -> None:
    async def main() -> None:
        poller = BusyPoller(1.0)
        for _ in range(20):
            poller.request_begins()
            assert poller.alone
            poller.request_ends()
            clock.advance(0.1)
        assert poller._turning
        poller.request_begins()
        poller.request_begins()
        assert not poller.alone

    asyncio.run(main())


def test_a_vigil_ends_while_something_long_runs() -> None:
    async def main() -> None:
        poller = BusyPoller(1000.0)
        poller.expect(1000.0)
        await asyncio.sleep(0)
        assert poller._turning
        poller.run_begins()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not poller._turning
        poller.run_ends()
        poller.expect(1000.0)
        assert poller._turning

    asyncio.run(main())


@pytest.fixture
def late_yield(clock: Clock) -> Callable[[], None]:
    """What `os.sched_yield` does where others need the processor for longer than a moment."""
    return lambda: clock.advance(3e-4)


def test_it_is_crowded_for_a_while_where_yields_are_late_again_and_again(
    monkeypatch: pytest.MonkeyPatch, late_yield: Callable[[], None]
) -> None:
    crowd = ContentionDetector()
    for late in (False, True, False, False, True, True):  # a single one says nothing
        monkeypatch.setattr("os.sched_yield", late_yield if late else lambda: None)
        crowd.let_run()
        crowd.end(5.0, alone=False)
        assert not crowd.here(5.0)
    for _ in range(6):
        monkeypatch.setattr("os.sched_yield", late_yield)
        crowd.let_run()
        crowd.end(5.0, alone=False)
    assert crowd.here(5.0)
    assert not crowd.here(5.0 + RETRY_SECONDS)


def test_one_caller_alone_is_no_crowd(
    monkeypatch: pytest.MonkeyPatch, late_yield: Callable[[], None]
) -> None:
    monkeypatch.setattr("os.sched_yield", late_yield)
    crowd = ContentionDetector()
    for _ in range(10):
        crowd.let_run()
        crowd.end(5.0, alone=True)
    assert not crowd.here(5.0)


def test_in_a_crowd_nobody_stays_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContentionDetector, "here", lambda *_: True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ear = PollingReceiver(theirs, 100, 1000.0)
        ear._gaps.mean = 0.0
        assert not ear._stays(time.perf_counter())
        ours.send(b"word")
        assert ear.receive() == b"word"

    async def main() -> None:
        poller = BusyPoller(1000.0)
        poller.expect(1000.0)
        assert not poller._turning

    asyncio.run(main())


def test_an_ear_does_not_look_again_while_something_runs() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    runs = {1}
    ear = PollingReceiver(theirs, 100, 1000.0, runs)
    assert ear._at_once(time.perf_counter() + 1000.0) is None  # it would look for as many seconds
    ours.send(b"word")
    assert ear.receive() == b"word"
    runs.clear()
    ours.send(b"next")
    assert ear._at_once(time.perf_counter() + 1000.0) == b"next"
    ours.close()
    theirs.close()


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_an_ear_hears_messages_soon_and_late_and_the_end(seconds: float) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    heard = []

    def listen() -> None:
        ear = PollingReceiver(theirs, 100, seconds)
        while message := ear.receive():
            heard.append(message)
            theirs.send(message)

    thread = threading.Thread(target=listen)
    thread.start()
    sent = [b"%d" % number for number in range(60)]
    for number, message in enumerate(sent):
        if number % 20 == 19:
            time.sleep(0.05)
        ours.send(message)
        assert ours.recv(100) == message
    ours.close()
    thread.join(30)
    theirs.close()
    assert not thread.is_alive()
    assert heard == sent
