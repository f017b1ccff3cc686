"""Limits of requests per second: a bucket of permissions per caller, in a table that cannot grow
without bound.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from infuse.errors import OverloadError

_MOST_CALLERS: Final = 4096
_REST: Final = ""  # the bucket of those for whom the table has no place
_IPV6_PREFIX: Final = 64  # one subscriber has at least so many addresses


class Rates:
    """Each caller may make `per_second` requests in the long run, and `burst` at once.

    At most `callers` are told apart. A bucket that has filled up again says nothing and makes place
    for another one; while there is none such, further callers share one bucket: neither memory nor
    the number of requests grows with the number of addresses.
    """

    def __init__(
        self,
        per_second: float,
        burst: int,
        clock: Callable[[], float],
        callers: int = _MOST_CALLERS,
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._callers = callers
        self._buckets: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # permissions left, as of when
        self._rest = (self._burst, clock())

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: str) -> None:
        """Use one permission of a caller; OverloadError, which says when there will be one, when
        none is left.
        """
        now = self._clock()
        name = caller if caller in self._buckets or self._place(now) else _REST
        left, since = self._rest if name == _REST else self._buckets.get(name, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        if left < 1:
            self._keep(name, left, now)
            raise _too_many((1 - left) / self._per_second)
        self._keep(name, left - 1, now)

    def _keep(self, name: str, left: float, now: float) -> None:
        if name == _REST:
            self._rest = (left, now)
        else:
            self._buckets[name] = (left, now)
            self._buckets.move_to_end(name)

    def _place(self, now: float) -> bool:
        """Whether one more caller can be told apart, once the one that was silent longest is
        forgotten if possible.
        """
        if len(self._buckets) < self._callers:
            return True
        left, since = next(iter(self._buckets.values()))
        if left + (now - since) * self._per_second < self._burst:
            return False
        self._buckets.popitem(last=False)
        return True


@lru_cache(_MOST_CALLERS)
def caller_address(peer: str) -> str:
    """The address of a caller, as limits count it, from `1.2.3.4`, `::1`, `[::1]:80`,
    `ipv4:1.2.3.4:80` or `ipv6:%5B::1%5D:80`: without a port, an IPv6 address as its network of 64
    bits. Other text is returned as it is.
    """
    text = peer.replace("%5B", "[").replace("%5D", "]")
    family, _, rest = text.partition(":")
    if family in ("ipv4", "ipv6"):
        text = rest
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))


def _too_many(seconds: float) -> OverloadError:
    error = OverloadError(
        "this caller makes more requests than the server takes from one", hint="send them slower"
    )
    error.retry_after = seconds
    return error
