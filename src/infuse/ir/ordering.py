"""Orders of things that depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def topological_order(
    roots: Iterable[T],
    dependencies: Callable[[T], Iterable[T]],
    cycle: Callable[[T], Exception],
) -> list[T]:
    """The roots and all that they depend on, each after its dependencies; stable with respect to
    `roots`, in linear time. What `cycle` says of one on a cycle is raised.
    """
    order: list[T] = []
    done: set[T] = set()
    for root in roots:
        if root in done:
            continue
        above = dependencies(root)
        if done.issuperset(above):
            done.add(root)
            order.append(root)
            continue
        stack, opened = [(root, iter(above))], {root}
        while stack:
            item, pending = stack[-1]
            for dependency in pending:
                if dependency in done:
                    continue
                if dependency in opened:
                    raise cycle(dependency)
                opened.add(dependency)
                stack.append((dependency, iter(dependencies(dependency))))
                break
            else:
                done.add(item)
                order.append(item)
                stack.pop()
    return order
