"""Choosing one term for each class, so that the whole is cheap.

A class that several others are cuts of (products computed at once) pays only when all of them use it, which no
choice class by class finds out. So each such class is tried as a seed: taken for granted, the cheapest terms by
themselves are chosen, and the whole is priced as it will run, everything that is shared once. What is cheaper than the
best choice so far takes its place. In the end single terms are exchanged as long as that helps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from infuse.search.cost import Choice, Pricing
from infuse.search.egraph import EGraph
from infuse.search.terms import Term

SWEEPS = 24
"""Passes over the classes until the prices of all are settled; more means that terms go in circles."""
ROUNDS = 6
GAIN = 0.05
"""Part of the price of the terms that go by which a choice must be cheaper, and seconds: less is not worth a change."""
LEAST_GAIN = 1e-6


class Extraction:
    """Finds cheap choices for the `roots`, beginning with `first`, the terms of the model."""

    def __init__(
        self, g: EGraph, pricing: Pricing, roots: Sequence[int], first: Choice, expired: Callable[[], bool]
    ) -> None:
        self.g = g
        self.pricing = pricing
        self.roots = roots
        self.first = dict(first)
        self.expired = expired
        self._order = self._ordered()

    def best(self) -> tuple[dict[int, Term], float]:
        """The cheapest choice found, and its price; `first` where nothing is cheaper by `GAIN`."""
        least = self.pricing.total(self.roots, self.first)
        price, choice = least, dict(self.first)
        seeds: list[int] = []
        open_seeds = self._seeds()
        for _ in range(ROUNDS):
            found = self._round(choice, price, seeds, open_seeds)
            if found is None:
                break
            price, choice, seed = found
            seeds += seed
        price, choice = self._exchanged(choice, price)
        return (choice, price) if self._pays(choice, least - price) else (dict(self.first), least)

    def _pays(self, choice: Choice, gain: float) -> bool:
        """Whether a gain is large enough beside the price of what goes."""
        old, new = (set(self.pricing.order(self.roots, c) or ()) for c in (self.first, choice))
        gone = [n for n in old if n not in new or choice[n] != self.first[n]]
        replaced = sum(self.pricing.own(n, self.first[n], self.first, lambda _: 1) for n in gone)
        return gain > max(LEAST_GAIN, GAIN * replaced)

    def _round(
        self, choice: Choice, price: float, seeds: list[int], candidates: Iterable[int]
    ) -> tuple[float, dict[int, Term], list[int]] | None:
        best: tuple[float, dict[int, Term], list[int]] | None = None
        for extra in [[], *([seed] for seed in candidates if seed not in seeds)]:
            if self.expired():
                break
            whole = self._cheapest([*seeds, *extra])
            if whole is None:
                continue
            for found in (whole, self._around(choice, whole, extra)):
                total = self.pricing.total(self.roots, found)
                if total < (best[0] if best else price) * (1 - 1e-6):
                    best = total, found, extra
        return best

    def _seeds(self) -> list[int]:
        """Classes that are not in the model and of which several others are cuts."""
        return [
            number
            for number, each in self.g.classes.items()
            if number not in self.first
            and not each.is_const
            and len({self.g.find(at) for term, at in each.parents.items() if term.kind == "Cut"}) > 1
        ]

    # -- class by class ------------------------------------------------------------------------------------------------

    def _ordered(self) -> list[int]:
        """All classes, operands before those that read them as far as there are no circles."""
        order: list[int] = []
        seen: set[int] = set()
        for start in sorted(self.g.classes):
            stack = [(start, False)]
            while stack:
                number, done = stack.pop()
                if done:
                    order.append(number)
                elif number not in seen:
                    seen.add(number)
                    stack.append((number, True))
                    stack += [(a, False) for term in self.g.classes[number].terms for a in term.args if a not in seen]
        return order

    def _cheapest(self, seeds: Sequence[int]) -> dict[int, Term] | None:
        """The cheapest terms, each class priced by itself and the seeds costing nothing to those who read them."""
        free = set(seeds)
        price: dict[int, float] = {}
        chosen: dict[int, Term] = {}
        for _ in range(SWEEPS):
            changed = False
            for number in self._order:
                for term in self.g.classes[number].terms:
                    total = self._price(number, term, price, chosen, free)
                    known = price.get(number, math.inf)
                    usual = self.first.get(number) == term
                    if total < known * (1 - 1e-9) or (usual and total <= known and chosen.get(number) != term):
                        price[number], chosen[number] = total, term
                        changed = True
            if not changed:
                break
        return chosen if all(root in chosen for root in self.roots) else None

    def _price(
        self, number: int, term: Term, price: dict[int, float], chosen: dict[int, Term], free: set[int]
    ) -> float:
        if self.g.is_const(number):
            return 0.0
        total = self.pricing.own(number, term, chosen, lambda _: 1)
        for arg in dict.fromkeys(term.args):
            if arg not in price:
                return math.inf
            if arg not in free:
                total += price[arg]
        return total

    def _around(self, choice: Choice, whole: Choice, seeds: Sequence[int]) -> dict[int, Term]:
        """The choice with only those changes by which the seeds are used."""
        if not seeds:
            return dict(whole)
        uses: dict[int, bool] = {}
        order = self.pricing.order(self.roots, whole)
        if order is None:
            return dict(whole)
        for number in order:
            uses[number] = number in seeds or any(uses[a] for a in self.pricing.operands(number, whole))
        found = dict(whole)
        found.update((n, t) for n, t in choice.items() if not uses.get(n, False))
        return found

    # -- term by term --------------------------------------------------------------------------------------------------

    def _exchanged(self, choice: dict[int, Term], price: float) -> tuple[float, dict[int, Term]]:
        """The choice after exchanging terms one by one, as long as that is cheaper."""
        fill = self._cheapest([]) or {}
        for _ in range(ROUNDS):
            before = price
            for number in self.pricing.order(self.roots, choice) or []:
                if self.g.is_const(number) or self.expired():
                    continue
                for term in self.g.classes[number].terms:
                    if term == choice[number]:
                        continue
                    other = {**fill, **choice, number: term}
                    total = self.pricing.total(self.roots, other)
                    if total < price * (1 - 1e-6):
                        price, choice = total, other
            if price >= before:
                break
        return price, choice
