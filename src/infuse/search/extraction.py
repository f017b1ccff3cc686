"""Choosing one term for each class, so that the whole is cheap.

A class that several others are cuts of (products computed at once) pays only when all of them use
it, which no choice class by class finds out. So each such class is tried as a seed: taken for
granted, the cheapest terms by themselves are chosen, and the whole is priced as it will run,
everything that is shared once. What is cheaper than the best choice so far takes its place. In the
end single terms are exchanged as long as that helps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from infuse.search.cost import Choice, Pricing
from infuse.search.egraph import EGraph
from infuse.search.terms import Term

SWEEPS = 24
"""How often a class is chosen for, on average, until prices must be settled."""
ROUNDS = 12
GAIN = 0.05
"""Part of the price of the terms that go by which a choice must be cheaper, and seconds: less is
not worth a change.
"""
LEAST_GAIN = 1e-6


class Extraction:
    """Finds cheap choices for the `roots`, beginning with `first`, the terms of the model."""

    def __init__(
        self,
        g: EGraph,
        pricing: Pricing,
        roots: Sequence[int],
        first: Choice,
        expired: Callable[[], bool],
    ) -> None:
        self.g = g
        self.pricing = pricing
        self.roots = roots
        self.first = dict(first)
        self.expired = expired
        self._order = self._ordered()
        self._place = {number: place for place, number in enumerate(self._order)}
        self._base: tuple[dict[int, float], dict[int, Term]] | None = None

    def best(self, limit: float) -> tuple[dict[int, Term], float]:
        """The cheapest choice found, and its price; `first` and the price `limit` where nothing is
        cheaper by `GAIN`.

        `limit` is the price of the model, in which classes that have become one were several.
        """
        price, choice = self.pricing.total(self.roots, self.first), dict(self.first)
        seeds: list[int] = []
        candidates = self._seeds()
        for _ in range(ROUNDS):
            extras = [[], *([seed] for seed in candidates)]
            tried = [(*self._tried(choice, [*seeds, *extra], extra), extra) for extra in extras]
            better = [each for each in tried if each[0] < price * (1 - 1e-6)]
            if not better:
                break
            price, choice, extra = min(better, key=lambda each: each[0])
            seeds += extra
            candidates = [seed for _, _, other in better for seed in other if seed not in seeds]
        price, choice = self._exchanged(choice, price)
        return (choice, price) if self._pays(choice, limit - price) else (dict(self.first), limit)

    def _tried(
        self, choice: Choice, seeds: Sequence[int], extra: Sequence[int]
    ) -> tuple[float, dict[int, Term]]:
        """The price and choice with these seeds: all that is cheapest then, or only what uses the
        last of them.
        """
        whole = None if self.expired() else self._cheapest(seeds)
        if whole is None:
            return math.inf, {}
        options = [whole, self._around(choice, whole, extra)] if extra else [whole]
        prices = [self.pricing.total(self.roots, option) for option in options]
        best = min(range(len(options)), key=prices.__getitem__)
        return prices[best], options[best]

    def _pays(self, choice: Choice, gain: float) -> bool:
        """Whether a gain is large enough beside the price of what goes."""
        old, new = (set(self.pricing.order(self.roots, c) or ()) for c in (self.first, choice))
        gone = [n for n in old if n not in new or choice[n] != self.first[n]]
        replaced = sum(self.pricing.own(n, self.first[n], self.first, lambda _: 1) for n in gone)
        return gain > max(LEAST_GAIN, GAIN * replaced)

    def _seeds(self) -> list[int]:
        """Classes that are not in the model and of which several that are in it are cuts."""
        seeds = []
        for number, each in self.g.classes.items():
            if number not in self.first and not each.is_const:
                parts = {
                    self.g.find(at) for term, at in each.parents.items() if term.kind == "SliceTerm"
                }
                if len(parts & self.first.keys()) > 1:
                    seeds.append(number)
        return seeds

    # -- class by class ----------------------------------------------------------------------------

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
                    stack += [
                        (a, False)
                        for term in self.g.classes[number].terms
                        for a in term.args
                        if a not in seen
                    ]
        return order

    def _cheapest(self, seeds: Sequence[int]) -> dict[int, Term] | None:
        """The cheapest terms, each class priced by itself and the seeds costing nothing to those
        who read them.
        """
        if self._base is None:
            self._base = {}, {}
            self._settle(*self._base, set(), self._order)
        price, chosen = dict(self._base[0]), dict(self._base[1])
        if seeds:
            self._settle(
                price, chosen, set(seeds), [n for seed in seeds for n in self._readers(seed)]
            )
        return chosen if all(root in chosen for root in self.roots) else None

    def _settle(
        self,
        price: dict[int, float],
        chosen: dict[int, Term],
        free: set[int],
        changed: Sequence[int],
    ) -> None:
        """Choose again for classes whose operands have changed, and for those that read them, until
        all is settled.
        """
        waiting = [self._place[n] for n in dict.fromkeys(changed)]
        heapq.heapify(waiting)
        queued = set(waiting)
        steps = SWEEPS * len(self._order)
        while waiting and steps:
            steps -= 1
            place = heapq.heappop(waiting)
            queued.discard(place)
            number = self._order[place]
            if not self._choose(number, price, chosen, free) or number in free:
                continue
            for reader in self._readers(number):
                if self._place[reader] not in queued:
                    queued.add(self._place[reader])
                    heapq.heappush(waiting, self._place[reader])

    def _readers(self, number: int) -> list[int]:
        return list(dict.fromkeys(map(self.g.find, self.g.classes[number].parents.values())))

    def _choose(
        self, number: int, price: dict[int, float], chosen: dict[int, Term], free: set[int]
    ) -> bool:
        """Choose the cheapest term of a class; whether that is another one or has another price
        now.
        """
        best, term = math.inf, None
        for each in self.g.classes[number].terms:
            total = self._price(number, each, price, chosen, free)
            if total < best or (total == best and self.first.get(number) == each):
                best, term = total, each
        least = price.get(number, math.inf)
        if term is None or not (
            best < least * (1 - 1e-9) or (best <= least and chosen.get(number) != term)
        ):
            return False
        price[number], chosen[number] = best, term
        return True

    def _price(
        self,
        number: int,
        term: Term,
        price: dict[int, float],
        chosen: dict[int, Term],
        free: set[int],
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
            uses[number] = number in seeds or any(
                uses[a] for a in self.pricing.operands(number, whole)
            )
        terms = dict(whole)
        terms.update((n, t) for n, t in choice.items() if not uses.get(n, False))
        return terms

    # -- term by term ------------------------------------------------------------------------------

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
