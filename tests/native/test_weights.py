"""The file of weights: what is stored once, and its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from infuse.lowering.weights import Weights, write_weights

pytestmark = pytest.mark.row("R1")
SIDE = 1000


def array(seed: int) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).random((SIDE, SIDE), "f4")


def packed(arrays: list[npt.NDArray[Any]], *, ahead: bool) -> Weights:
    weights = Weights()
    if ahead:
        weights.hash(arrays)
    for each in arrays:
        weights.add(each, "turned", each.nbytes, lambda a: np.ascontiguousarray(a.T))
    return weights


def test_arrays_that_were_hashed_ahead_are_stored_as_others() -> None:
    arrays = [array(0), array(1), array(0), array(2)[:3], array(0).T]
    ahead, later = packed(arrays, ahead=True), packed(arrays, ahead=False)
    assert ahead.fingerprint() == later.fingerprint()
    assert [position for position, _ in ahead] == [position for position, _ in later]
    assert len(list(ahead)) == 4
    assert ahead.fingerprint() != packed(arrays[::-1], ahead=True).fingerprint()


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    entries = [(0, array(3)), (SIDE * SIDE * 4 + 64, array(4)[:7])]
    total = SIDE * SIDE * 4 + 64 + SIDE * 7 * 4 + 32
    told = write_weights(tmp_path / "weights", entries, total)
    content = (tmp_path / "weights").read_bytes()
    assert told == hashlib.sha256(content).hexdigest()
    assert len(content) == total
    for position, entry in entries:
        assert content[position : position + entry.nbytes] == entry.tobytes()


def test_an_array_without_elements_hides_none_at_its_position() -> None:
    """The places of a matrix of zeros take no room; what follows stands at the same position."""
    weights, empty = Weights(), np.zeros(0, np.uint16)
    first = weights.add(empty, "empty", 0, lambda a: a)
    second = weights.add(np.arange(3, dtype=np.int32), "starts", 12, lambda a: a)
    assert first.position == second.position
    np.testing.assert_array_equal(weights.at(second.position), [0, 1, 2])
