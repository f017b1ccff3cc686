"""What a compression did to a model, layer by layer."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from infuse.analysis.document import plain
from infuse.analysis.sheets import render_sheet, write_sheet
from infuse.compression.contract import Bound
from infuse.compression.frontier import front
from infuse.ir.html import frame

ORIGINAL, PRUNED, TUNED = "original", "pruned", "tuned"
FAR, FAR_ERROR, FAR_NOISE = 0.1, 1.0, 10.0
"""What is far from the original: the part of a score that is lost, the part by which an error
grows, and dB.
"""
AXES = ("seconds", "weight_bytes")
"""What scores are shown against."""


@dataclass
class LayerReport:
    """A layer: what it is computed in and why, the error of its result in dB below the result on
    exact operands, and the seconds of its region in float32 and as it is.
    """

    node: str
    operator: str
    form: str
    reason: str = ""
    calibrator: str = ""
    noise: float | None = None
    sensitivity: float | None = None
    """What the score loses when this layer alone is compressed, on few examples."""
    float_seconds: float | None = None
    seconds: float | None = None


@dataclass
class CandidateReport:
    """A model whose score was measured."""

    name: str
    """`original`, `pruned` or `tuned` (the model of that stage, in float32), or nothing."""
    score: float
    forms: dict[str, int]
    """How many layers have each form; the others are in float32."""
    weight_bytes: int
    """As its layers were written; of the result, as the whole was optimized afterwards."""
    seconds: float | None = None
    """The least time of a run; None where it was not measured."""
    is_result: bool = False

    @property
    def layers(self) -> int:
        """How many layers are compressed."""
        return sum(self.forms.values())


@dataclass
class GroupReport:
    """Channels that go together: the nodes that make them, and how many there were and are."""

    nodes: list[str]
    before: int
    after: int


@dataclass
class BlockReport:
    """A residual block that could be dropped, its multiplications, and whether it was."""

    name: str
    macs: int
    is_removed: bool


@dataclass
class PruningReport:
    """A pruning: what went, what had to stay and why, and what was learned back."""

    goal: str
    """What is to be smaller, and by which part."""
    macs_before: int
    macs: int
    importance: str = ""
    """How channels were compared."""
    strategy: str = ""
    """How widths were chosen."""
    multiple: int = 1
    """Widths are multiples of it where a group is wide enough."""
    groups: list[GroupReport] = field(default_factory=list)
    blocks: list[BlockReport] = field(default_factory=list)
    closed: list[LayerReport] = field(default_factory=list)
    """Nodes whose channels stay, with the reason."""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """MACs, the blocks that went, the scores of the kinds that were tried (`tried`), the scores
    before and after tuning, its epochs and seconds, of every round.
    """
    is_reached: bool = True
    """Whether the goal is."""

    @property
    def saved(self) -> str:
        """How many times fewer multiplications there are, in words."""
        return f"{self.macs_before / max(self.macs, 1):.2f} × fewer"

    def lines(self) -> list[str]:
        """What to say of it."""
        narrower = [group for group in self.groups if 0 < group.after < group.before]
        gone = sum(group.before - group.after for group in narrower)
        measure, staying = self.importance or "nothing", len(self.closed)
        lines = [
            f"pruned: {gone} channels of {len(narrower)} of {len(self.groups)} groups by {measure}",
            f"layers whose channels stay: {staying}",
            *(f"block {block.name} removed" for block in self.blocks if block.is_removed),
            f"MACs: {self.macs_before / 1e6:.2f} → {self.macs / 1e6:.2f} million, {self.saved}",
        ]
        for number, each in enumerate(self.rounds, 1):
            text = f"round {number}: {each['macs'] / 1e6:.2f} million MACs, "
            text += f"score {each['before']:.6g}"
            if each["epochs"]:
                text += (
                    f" → {each['after']:.6g} after {each['epochs']} epochs of tuning "
                    f"({each['seconds']:.1f} s)"
                )
            if each.get("tried"):
                told = (f"{kind} {score:.6g}" for kind, score in each["tried"].items())
                text += f"; after a part of it: {', '.join(told)}"
            lines.append(text)
        return lines


@dataclass
class CompressionReport:
    """A compression: scores, speed, size, and all layers."""

    metric: str
    examples: int
    reference: float
    """The score of the original."""
    score: float
    """That of the compressed model."""
    higher_is_better: bool = True
    max_drop: str = ""
    """The loss that is allowed; empty where there is no contract."""
    is_met: bool = True
    validations: int = 0
    """How often a model went through all examples, the original included."""
    model_runs: int = 0
    """Runs of models on examples in all, those that told sensitivities among them."""
    float_seconds: float = 0.0
    seconds: float = 0.0
    weight_bytes_before: int = 0
    weight_bytes: int = 0
    layers: list[LayerReport] = field(default_factory=list)
    tried: list[CandidateReport] = field(default_factory=list)
    """The original, and every other model whose score was measured."""
    notes: list[str] = field(default_factory=list)
    pruning: PruningReport | None = None

    @property
    def drop(self) -> float:
        """What the score loses, in its own unit; negative where it gains."""
        lost = self.reference - self.score
        return lost if self.higher_is_better else -lost

    @property
    def relative_drop(self) -> float:
        """`drop` over the score of the original."""
        return self.drop / abs(self.reference) if self.reference else self.drop

    @property
    def doubt(self) -> str:
        """What to say where the model is far from the original and no contract allows that: a tenth
        of the score is lost, errors doubled, or noise comes within 10 dB.
        """
        if self.max_drop or self.drop <= 0 or not math.isfinite(self.score):
            return ""
        if math.isfinite(self.reference):
            is_far = self.relative_drop > (FAR if self.higher_is_better else FAR_ERROR)
        else:
            is_far = self.score < FAR_NOISE
        if not is_far:
            return ""
        return (
            f"the compressed model is far from the original: {self.metric} {self.score:.4g}, was "
            f"{self.reference:.4g}; bound what it may lose (--max-drop 1%, Contract('1%')), or "
            "choose a method that loses less"
        )

    @property
    def speed(self) -> float:
        """How much faster it is than the original."""
        return self.float_seconds / self.seconds if self.seconds else 0.0

    def holds(self, score: float) -> bool:
        """Whether a score is within the bound."""
        bound = Bound.parse(self.max_drop) if self.max_drop else None
        return bound is None or bound.holds(self.reference, score, self.higher_is_better)

    @property
    def worst_score(self) -> float | None:
        """The last score that is within the bound; None where there is no contract."""
        if not self.max_drop:
            return None
        return Bound.parse(self.max_drop).worst(self.reference, self.higher_is_better)

    def front(self, axis: str) -> list[int]:
        """The numbers of the candidates (`tried`) on the Pareto front of the score and an axis
        (`AXES`), from the cheapest to the best. Those that were not measured are on none.
        """
        costs = [getattr(each, axis) for each in self.tried]
        return front(
            [math.inf if cost is None else cost for cost in costs],
            [each.score for each in self.tried],
            self.higher_is_better,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; numbers that it does not know are None."""
        data = {
            **asdict(self),
            "drop": self.drop,
            "relative_drop": self.relative_drop,
            "speed": self.speed,
            "worst_score": self.worst_score,
            "fronts": {axis: self.front(axis) for axis in AXES},
            "lines": self.lines(),
            "doubt": self.doubt,
        }
        for candidate, row in zip(self.tried, data["tried"]):
            row |= {"layers": candidate.layers, "is_met": self.holds(candidate.score)}
        shown: dict[str, Any] = plain(data)
        return shown

    def write(self, path: str | os.PathLike[str], title: str) -> None:
        """Write the report as a page (.html), or its data (.json). The file appears whole or not at
        all; OptionError for another ending or a path that cannot be written.
        """
        write_sheet(path, "compression", self.to_dict(), title)

    def _repr_html_(self) -> str:
        """The page of the report, as notebooks show it."""
        return frame(render_sheet("compression", self.to_dict(), "Compression"))

    def lines(self) -> list[str]:
        """What to say of it."""
        forms = [layer.form for layer in self.layers]
        counts = ", ".join(f"{forms.count(form)} {form}" for form in dict.fromkeys(forms))
        smaller = self.weight_bytes_before / self.weight_bytes if self.weight_bytes else 0.0
        scores = f"{self.metric} on {self.examples} runs: {self.reference:.6g} → {self.score:.6g}"
        scores += f", {_lost(self.relative_drop)}"
        if self.max_drop:
            verdict = "met" if self.is_met else "NOT met"
            scores += f"; the bound of {self.max_drop} is {verdict}"
        pruned = [] if self.pruning is None else self.pruning.lines()
        lines = [*pruned, f"layers: {counts or 'none'}", scores]
        if self.seconds:
            lines.append(
                f"speed: {self.float_seconds * 1e3:.3f} → {self.seconds * 1e3:.3f} ms, "
                f"{self.speed:.2f} ×"
            )
        lines.append(
            f"weights: {self.weight_bytes_before / 1e6:.2f} → {self.weight_bytes / 1e6:.2f} MB, "
            f"{smaller:.2f} × smaller"
        )
        return [*lines, *self.notes]


def _lost(drop: float) -> str:
    return f"{drop:.3%} lost" if drop > 0 else f"{-drop:.3%} gained" if drop < 0 else "nothing lost"
