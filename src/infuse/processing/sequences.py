"""Sequences: from scores of every step to labels, paths and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.tracing.arrays import namespace as xp
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line
from infuse.tracing.arrays.control import loop, scan
from infuse.tracing.arrays.sizes import listed

__all__ = ["ctc_beam_search", "ctc_greedy", "generate", "next_token", "viterbi"]


# -- CTC -------------------------------------------------------------------------------------------


@block
def ctc_greedy(log_probs: Any, lengths: Any = None, *, blank: int = 0) -> tuple[Any, Any, Any]:
    """The labels of the most likely path through [batch, time, classes]: repeats are one, blanks
    none. Of each row the labels, int64 [batch, time] filled up with -1, how many they are [batch],
    and the sum of the path's log probabilities [batch].

    `lengths`: how many steps of a row count, int [batch].
    """
    x = _scores(log_probs)
    batch, time, classes = x.shape
    _check_blank(blank, classes)
    best = xp.argmax(x, axis=2)
    before = xp.concat([xp.full((batch, 1), -1, dtype=np.int64), best], axis=1)[:, :time]
    valid = _valid(lengths, batch, time)
    is_label = valid & (best != blank) & (best != before)
    count = xp.cumulative_sum(is_label.astype(np.int64), axis=1)
    # What is no label goes to a column behind all others.
    places = xp.where(is_label, count - 1, time)
    empty = xp.full((batch, time + 1), -1, dtype=np.int64)
    labels = node("ScatterElements", empty, places, best, axis=1)[:, :time]
    number = xp.sum(is_label.astype(np.int64), axis=1)
    scores = xp.sum(xp.where(valid, xp.max(x, axis=2), 0), axis=1)
    return labels, number, scores


@block
def ctc_beam_search(
    log_probs: Any, lengths: Any = None, *, beams: int = 16, blank: int = 0
) -> tuple[Any, Any, Any]:
    """The most likely labellings of [batch, time, classes] by prefix beam search, the best first:
    labels, int64 [batch, beams, time] filled up with -1, how many they are [batch, beams], and
    their log probabilities [batch, beams], each summed over the paths that were in the beam.

    `lengths`: how many steps of a row count, int [batch]. Where there are fewer labellings than
    `beams`, the last are empty with the score -inf.
    """
    x = _scores(log_probs)
    batch, time, classes = x.shape
    _check_blank(blank, classes)
    if beams < 1:
        raise OptionError(f"`beams` is {beams}", hint="at least 1")
    search = _Beams(beams, classes, blank)
    steps = xp.permute_dims(x, (1, 0, 2))
    valid = xp.permute_dims(_valid(lengths, batch, time), (1, 0))
    state, _ = scan(search.step, search.start(batch, time, x.dtype), (steps, valid))
    prefixes, counts, ends_blank, ends_label = state
    scores = xp.logaddexp(ends_blank, ends_label)
    return xp.maximum(prefixes, -1), counts, scores


class _Beams:
    """Prefixes [batch, beams, time], their lengths, and log probabilities [batch, beams] of their
    paths that end with a blank, and with a label. A beam of probability 0 has the prefix -2, -2, …,
    which equals none.
    """

    def __init__(self, beams: int, classes: int, blank: int) -> None:
        self.beams, self.classes, self.blank = beams, classes, blank

    def start(self, batch: Any, time: Any, dtype: Any) -> tuple[Array, ...]:
        """One empty prefix."""
        first = np.arange(self.beams) == 0
        prefix = xp.full((batch, 1, time), -1, dtype=np.int64)
        prefixes = xp.where(first[:, None], prefix, -2)
        counts = xp.zeros((batch, self.beams), dtype=np.int64)
        never = xp.full((batch, self.beams), -np.inf, dtype=dtype)
        return prefixes, counts, xp.where(first, lifted(0, dtype), never), never

    def step(
        self, state: tuple[Any, ...], entries: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The beams after one more step, and nothing to put together."""
        prefixes, counts, ends_blank, ends_label = state
        row, valid = entries
        time = prefixes.shape[2]
        total = xp.logaddexp(ends_blank, ends_label)
        last_place = xp.expand_dims(xp.maximum(counts - 1, 0), axis=2)
        last = xp.where(counts > 0, self._last(prefixes, last_place, time), -1)
        # A label goes on behind a blank, or behind another label.
        is_last = xp.expand_dims(last, axis=2) == np.arange(self.classes)
        before = xp.where(is_last, xp.expand_dims(ends_blank, axis=2), _column(total))
        longer = before + xp.expand_dims(row, axis=1)
        longer = xp.where(np.arange(self.classes) == self.blank, -np.inf, longer)
        index = xp.maximum(last, 0)
        of_last = xp.where(last >= 0, node("GatherElements", row, index, axis=1), -np.inf)
        stay_blank = total + row[:, self.blank : self.blank + 1]
        stay_label, longer = self._merged(
            ends_label + of_last, longer, prefixes, counts, last, last_place
        )
        chosen = self._chosen(prefixes, counts, stay_blank, stay_label, longer)
        flags = [xp.reshape(valid, (-1, *[1] * (part.ndim - 1))) for part in chosen]
        after = tuple(xp.where(f, new, old) for f, new, old in zip(flags, chosen, state))
        return after, ()

    def _last(self, prefixes: Array, place: Array, time: Any) -> Array:
        at = xp.arange(time) == place
        return lifted(xp.sum(xp.where(at, prefixes, 0), axis=2))

    def _merged(
        self,
        stay: Array,
        longer: Array,
        prefixes: Array,
        counts: Array,
        last: Array,
        last_place: Array,
    ) -> tuple[Array, Array]:
        """Where a prefix and a label are a prefix of another beam, its probability goes there."""
        is_end = xp.arange(prefixes.shape[2]) == last_place
        parents = xp.where(is_end, -1, prefixes)
        same = xp.all(xp.expand_dims(parents, axis=2) == xp.expand_dims(prefixes, axis=1), axis=3)
        same = same & (_column(counts) > 0)  # [batch, child, parent]
        same = xp.permute_dims(same, (0, 2, 1))
        index = xp.expand_dims(xp.maximum(last, 0), axis=1)
        index = xp.broadcast_to(index, (last.shape[0], self.beams, self.beams))
        moved = xp.where(same, node("GatherElements", longer, index, axis=2), -np.inf)
        gain = xp.max(moved, axis=1)  # a child has one parent at most
        label = (_column(last) == np.arange(self.classes)).astype(stay.dtype)
        is_child = same.astype(stay.dtype) @ label > 0
        return xp.logaddexp(stay, gain), xp.where(is_child, -np.inf, longer)

    def _chosen(
        self, prefixes: Array, counts: Array, blank: Array, label: Array, longer: Array
    ) -> tuple[Array, ...]:
        """The best of all candidates, those that stay and those that are longer by a label."""
        batch, _, time = prefixes.shape
        flat = xp.reshape(longer, (batch, self.beams * self.classes))
        candidates = xp.concat([xp.logaddexp(blank, label), flat], axis=1)
        scores, index = nodes(2, "TopK", candidates, listed(self.beams), axis=1)
        stays = index < self.beams
        beyond = xp.maximum(index - self.beams, 0)
        beam = xp.where(stays, index, beyond // self.classes)
        never = lifted(-np.inf, blank.dtype)
        ends_blank = xp.where(stays, node("GatherElements", blank, beam, axis=1), never)
        stayed = node("GatherElements", label, beam, axis=1)
        ends_label = xp.where(stays, stayed, scores)
        size = node("GatherElements", counts, beam, axis=1)
        wide = xp.broadcast_to(_column(beam), (batch, self.beams, time))
        origin = node("GatherElements", prefixes, wide, axis=1)
        is_new = (xp.arange(time) == _column(size)) & ~_column(stays)
        made = xp.where(is_new, _column(beyond % self.classes), origin)
        is_real = scores > -np.inf
        made = xp.where(_column(is_real), made, -2)
        return made, xp.where(is_real, size + ~stays, 0), ends_blank, ends_label


def _column(x: Array) -> Array:
    return lifted(xp.expand_dims(x, axis=2))


# -- paths -----------------------------------------------------------------------------------------


@block
def viterbi(
    scores: Any, transitions: Any, start: Any = None, end: Any = None, lengths: Any = None
) -> tuple[Any, Any]:
    """The best sequence of tags by Viterbi's algorithm: int64 [batch, time], -1 behind a row's end,
    and its total score [batch].

    `scores` [batch, time, tags] of every tag at every step, `transitions` [tags, tags] from one tag
    (first axis) to the next, `start` and `end` [tags] of the first and the last tag, `lengths`: how
    many steps of a row count, int [batch]. Of equal ones the lowest tag is taken; the score of
    nothing is 0.
    """
    x = _scores(scores)
    batch, time, tags = x.shape
    moves = lifted(transitions, x.dtype)
    first = lifted(np.zeros(tags) if start is None else start, x.dtype)
    if moves.ndim != 2 or first.ndim != 1 or moves.shape[0] != tags or moves.shape[1] != tags:
        raise ShapeError(
            f"transitions of {tags} tags are [{tags}, {tags}], found {moves.value.type}, their "
            f"starts [{tags}], found {first.value.type}",
            where=source_line(),
        )
    valid = _valid(lengths, batch, time)
    stay = xp.zeros((batch, 1), dtype=np.int64) + np.arange(tags)

    def forward(state: tuple[Any, ...], entries: tuple[Any, ...]) -> tuple[Any, Any]:
        best, begun = state
        row, real = entries
        reached = xp.expand_dims(best, axis=2) + moves
        origin = xp.argmax(reached, axis=1)
        before = xp.where(begun, xp.max(reached, axis=1), first)
        going = xp.expand_dims(real, axis=1)
        after = xp.where(going, before + row, best)
        return (after, begun | True), (xp.where(going & begun, origin, stay),)

    steps = xp.permute_dims(x, (1, 0, 2)), xp.permute_dims(valid, (1, 0))
    nothing = xp.zeros((batch, tags), dtype=x.dtype)
    (best, _), (origins,) = scan(forward, (nothing, lifted(False)), steps)
    best = best if end is None else best + lifted(end, x.dtype)

    def backward(state: tuple[Any, ...], entries: tuple[Any, ...]) -> tuple[Any, Any]:
        tag = state[0]
        previous = node("GatherElements", entries[0], xp.expand_dims(tag, axis=1), axis=1)
        return (xp.squeeze(previous, axis=1),), (tag,)

    last = xp.argmax(best, axis=1)
    _, (tags_back,) = scan(backward, (last,), (xp.flip(origins, axis=0),))
    # A scan of no steps does not know the other sizes of what it puts together.
    path = xp.permute_dims(xp.flip(xp.reshape(tags_back, (time, batch)), axis=0), (1, 0))
    is_empty = ~xp.any(valid, axis=1)
    return xp.where(valid, path, -1), xp.where(is_empty, 0, xp.max(best, axis=1))


# -- tokens ----------------------------------------------------------------------------------------


@block
def next_token(
    scores: Any,
    uniform: Any = None,
    previous: Any = None,
    *,
    temperature: Any = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
) -> Any:
    """The next token of every row, int64 [batch], of scores (logits) [batch, vocabulary].

    Without `uniform` the best one; else a random one by probability, for random numbers [batch] in
    [0, 1) that are drawn outside. Before, in this order: scores of tokens in `previous` (int
    [batch, n], less than 0 for none) are divided by `repetition_penalty` (multiplied, if negative);
    all are divided by `temperature`; only the `top_k` best count (0: all), and of these only the
    fewest best whose probability is at least `top_p`.
    """
    x = lifted(scores)
    if x.dtype.kind != "f" or x.ndim != 2 or not isinstance(x.shape[1], int):
        raise ShapeError(
            f"scores are floats [batch, vocabulary] of known vocabulary, found {x.value.type}",
            where=source_line(),
        )
    size = x.shape[1]
    _check_choice(temperature, top_k, top_p, repetition_penalty)
    if previous is not None and repetition_penalty != 1:
        x = _penalized(x, lifted(previous).astype(np.int64), size, repetition_penalty)
    if uniform is None:
        return xp.argmax(x, axis=1)
    x = x / lifted(temperature, x.dtype)
    count = min(top_k or size, size)
    ordered, index = nodes(2, "TopK", x, listed(count), axis=1)
    probability = node("Softmax", ordered, axis=1)
    total = xp.cumulative_sum(probability, axis=1)
    counts = total - probability < top_p
    counts = counts | (np.arange(count) == 0)
    mass = xp.sum(xp.where(counts, probability, 0), axis=1, keepdims=True)
    passed = (total <= xp.expand_dims(lifted(uniform, x.dtype), axis=1) * mass) & counts
    number = xp.sum(counts.astype(np.int64), axis=1)
    place = xp.minimum(xp.sum(passed.astype(np.int64), axis=1), number - 1)
    token = node("GatherElements", index, xp.expand_dims(place, axis=1), axis=1)
    return xp.squeeze(token, axis=1)


def _check_choice(temperature: Any, top_k: int, top_p: float, penalty: float) -> None:
    if isinstance(temperature, (int, float)) and not temperature > 0:
        raise OptionError(f"`temperature` is {temperature}", hint="more than 0")
    if top_k < 0 or not 0 < top_p <= 1 or not penalty > 0:
        raise OptionError(
            f"`top_k` is {top_k}, `top_p` {top_p}, `repetition_penalty` {penalty}",
            hint="top_k at least 0, 0 < top_p <= 1, repetition_penalty more than 0",
        )


def _penalized(x: Array, previous: Array, size: int, penalty: float) -> Array:
    batch = x.shape[0]
    # Tokens outside of the vocabulary lie outside of the array too, and fail.
    places = xp.where(previous < 0, size, xp.where(previous < size, previous, previous + 1))
    seen = xp.full((batch, size + 1), 0, dtype=np.int32)
    ones = xp.ones_like(places).astype(np.int32)
    seen = node("ScatterElements", seen, places, ones, axis=1)[:, :size] > 0
    return lifted(xp.where(seen, xp.where(x < 0, x * penalty, x / penalty), x))


def generate(
    step: Callable[..., Any],
    prompt: Any,
    state: Sequence[Any] = (),
    *,
    most: int,
    end: int,
    uniform: Any = None,
    **choice: Any,
) -> Array:
    """Tokens behind a prompt [batch, length], int64 [batch, most], by a loop inside of the traced
    program: `step(token, state)` of tokens [batch] gives scores [batch, vocabulary] and the next
    state, arrays of the types of `state`, which may grow as a cache of keys and values does.

    The prompt is read token by token. A row that has met the token `end` goes on with it, and when
    all have, the loop ends. `uniform`: random numbers [batch, most] in [0, 1) for a random choice;
    `choice`: options of `next_token`, of which `repetition_penalty` counts what was generated.
    """
    if most < 1:
        raise OptionError(f"`most` is {most}", hint="at least 1")
    ids = lifted(prompt).astype(np.int64)
    numbers = None if uniform is None else lifted(uniform)
    batch, length = ids.shape

    def going(number: Any, made: Any, done: Any, token: Any, *rest: Any) -> Any:
        del made, token, rest
        return (number < length + most - 1) & ~xp.all(done)

    def turn(number: Any, made: Any, done: Any, token: Any, *rest: Any) -> Any:
        scores, after = step(token, tuple(rest))
        place = number - (length - 1)
        at = xp.minimum(xp.maximum(place, 0), most - 1)
        drawn = None if numbers is None else xp.take(numbers, xp.reshape(at, (1,)), axis=1)[:, 0]
        best = next_token(scores, drawn, made, **choice)
        best = xp.where(done, end, best)
        is_new = (xp.arange(most) == place) | ((xp.arange(most) > place) & (best == end)[:, None])
        is_behind = place >= 0
        made = xp.where(is_new & is_behind, best[:, None], made)
        done = done | ((best == end) & is_behind)
        fed = xp.take(ids, xp.reshape(xp.minimum(number + 1, length - 1), (1,)), axis=1)[:, 0]
        return (number + 1, made, done, xp.where(is_behind, best, fed), *after)

    nothing = xp.full((batch, most), -1, dtype=np.int64)
    unfinished = xp.full((batch,), False, dtype=np.bool_)
    last = loop(going, turn, (np.int64(0), nothing, unfinished, ids[:, 0], *state))
    return last[1]


# -- operands --------------------------------------------------------------------------------------


def _scores(scores: Any) -> Array:
    x = lifted(scores)
    if x.dtype.kind != "f":
        raise TypeMismatchError(f"scores are floats, not {x.dtype}", where=source_line())
    if x.ndim != 3 or not isinstance(x.shape[2], int) or x.shape[2] < 1:
        raise ShapeError(
            f"scores are [batch, time, classes] of so many classes, found {x.value.type}",
            where=source_line(),
        )
    return x


def _valid(lengths: Any, batch: Any, time: Any) -> Array:
    """Which steps [batch, time] count."""
    if lengths is None:
        return lifted(xp.full((batch, time), True, dtype=np.bool_))
    sizes = lifted(lengths)
    if sizes.dtype.kind not in "iu" or sizes.ndim != 1:
        raise TypeMismatchError(
            f"lengths are integers [batch], found {sizes.value.type}", where=source_line()
        )
    return lifted(xp.arange(time) < xp.expand_dims(sizes.astype(np.int64), axis=1))


def _check_blank(blank: int, classes: int) -> None:
    if not 0 <= blank < classes:
        raise OptionError(f"`blank` is {blank}", hint=f"one of the {classes} classes, from 0")
