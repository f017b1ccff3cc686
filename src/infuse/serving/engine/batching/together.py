"""Whether requests of a version may be put together."""

from __future__ import annotations

from dataclasses import dataclass

from infuse.serving.control.model_config import Batching


@dataclass(frozen=True)
class Together:
    """Whether requests may run as one batch. `reason`: why not. `stated`: the configuration says
    that rows are independent, which is not proven; `unproven`: it is not, and nothing says so.
    """

    allowed: bool = True
    reason: str = ""
    stated: bool = False
    unproven: bool = False

    @classmethod
    def of(cls, batching: Batching, mixes: str) -> Together:
        """What a configuration allows for a model of which `mixes` says why it is not proven that
        rows are independent ("": it is).
        """
        if not batching.dynamic:
            return cls(False, "the configuration asks for no dynamic batching")
        if batching.max_size == 1:
            return cls(False, "max_size is 1")
        if not mixes:
            return cls()
        if batching.independent_rows:
            return cls(stated=True)
        reason = f"it is not proven that rows are independent: {mixes}"
        return cls(False, reason, unproven=True)
