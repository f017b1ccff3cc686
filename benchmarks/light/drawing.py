"""Draws networks as points, by accuracy, time and arithmetic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 560, 480, 46
"""Of one plot, and what is left of it on each side for numbers and names: pixels."""
LETTER, LINE = 5.0, 11.0
"""Width of a letter and height of a line of the labels: pixels."""
COLOURS = {
    "separable": "#1f77b4",
    "inverted": "#17becf",
    "universal": "#2ca02c",
    "gated": "#9467bd",
    "fire": "#8c564b",
    "shuffles": "#ff7f0e",
    "ghosts": "#7f7f7f",
    "attention": "#d62728",
}


class Point(NamedTuple):
    """A network in a plot."""

    label: str
    parts: str
    x: float
    y: float


class Box(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether two rectangles have a point in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` along one side, evenly or by their logarithms."""

    title: str
    low: float
    high: float
    is_log: bool = True

    def place(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one."""
        turn: Callable[[float], float] = math.log if self.is_log else float
        return (turn(value) - turn(self.low)) / (turn(self.high) - turn(self.low))

    def ticks(self) -> list[float]:
        """The numbers that are written: 1, 2 and 5 of each power of ten, or every fifth."""
        if not self.is_log:
            return [float(n) for n in range(math.ceil(self.low), int(self.high) + 1) if n % 5 == 0]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [tick for tick in found if self.low <= tick <= self.high]


def around(values: Sequence[float], title: str, is_log: bool = True) -> Axis:
    """An axis on which all values lie, with room at both ends."""
    low, high = min(values), max(values)
    if is_log:
        return Axis(title, low / 1.3, high * 1.6)
    return Axis(title, low - 2, high + 2, False)


def plot(points: Sequence[Point], across: Axis, up: Axis, rates: Sequence[float] = ()) -> list[str]:
    """The parts of a plot, as SVG; `rates` are lines on which x is so many times y."""
    inner, floor = WIDTH - 2 * MARGIN, HEIGHT - MARGIN
    drawn = [f'<path d="M{MARGIN} {MARGIN}V{floor}H{MARGIN + inner}" fill="none" stroke="#999"/>']
    title = f'<text x="{MARGIN + inner / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
    drawn += [f"{title}{escape(across.title)}</text>"]
    drawn += [f'<text x="{MARGIN - 34}" y="{MARGIN - 12}">{escape(up.title)}</text>']
    for tick in across.ticks():
        x = MARGIN + inner * across.place(tick)
        drawn.append(f'<path d="M{x:.1f} {MARGIN}V{floor}" stroke="#eee"/>')
        drawn.append(f'<text x="{x:.1f}" y="{floor + 14}" text-anchor="middle">{tick:g}</text>')
    for tick in up.ticks():
        y = floor - (floor - MARGIN) * up.place(tick)
        drawn.append(f'<path d="M{MARGIN} {y:.1f}H{MARGIN + inner}" stroke="#eee"/>')
        drawn.append(f'<text x="{MARGIN - 5}" y="{y + 3:.1f}" text-anchor="end">{tick:g}</text>')
    for rate in rates:
        drawn += rate_line(rate, across, up)
    places = [
        (MARGIN + inner * across.place(p.x), floor - (floor - MARGIN) * up.place(p.y))
        for p in points
    ]
    dots = [Box(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    taken: list[Box] = []
    for point, (x, y) in zip(points, places):
        box = label_box(x, y, LETTER * len(point.label), [*dots, *taken])
        taken.append(box)
        colour = COLOURS[point.parts]
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        where = f'x="{box.left:.1f}" y="{box.bottom - 2:.1f}"'
        drawn.append(f'<text {where} font-size="9" fill="{colour}">{escape(point.label)}</text>')
    return drawn


def rate_line(rate: float, across: Axis, up: Axis) -> list[str]:
    """The part inside of a plot of the line on which x is `rate` times y, with its name."""
    inner, floor = WIDTH - 2 * MARGIN, HEIGHT - MARGIN
    ends = (max(across.low, rate * up.low), min(across.high, rate * up.high))
    (x, y), (far, high) = (
        (MARGIN + inner * across.place(end), floor - (floor - MARGIN) * up.place(end / rate))
        for end in ends
    )
    line, style = f"M{x:.1f} {y:.1f}L{far:.1f} {high:.1f}", 'stroke="#bbb" stroke-dasharray="3 3"'
    where = f'x="{far:.1f}" y="{high - 4:.1f}" text-anchor="end" fill="#999" font-size="9"'
    return [f'<path d="{line}" {style}/>', f"<text {where}>{rate:g} G MACs/s</text>"]


def label_box(x: float, y: float, width: float, others: Sequence[Box]) -> Box:
    """Where the label of a point lies: beside it, above or below, the nearest that is free and
    inside; beside it where none is.
    """
    beside = Box(x + 5, y - LINE / 2, x + 5 + width, y + LINE / 2)
    tried = [beside]
    for step in range(1, 7):
        for sign in (-1, 1):
            shift = sign * step * LINE * 0.6
            for left in (x + 5, x - width / 2, x - 5 - width):
                tried.append(Box(left, y + shift - LINE / 2, left + width, y + shift + LINE / 2))
        if step == 1:
            tried.append(Box(x - 5 - width, y - LINE / 2, x - 5, y + LINE / 2))
    free = [
        box
        for box in tried
        if box.left > MARGIN and box.right < WIDTH and not any(map(box.meets, others))
    ]
    return free[0] if free else beside


def legend() -> list[str]:
    """What the colours stand for, in one line."""
    drawn = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = MARGIN + number * 110
        drawn.append(f'<circle cx="{x}" cy="12" r="4" fill="{colour}"/>')
        drawn.append(f'<text x="{x + 8}" y="16">{name}</text>')
    return drawn


def drawing(plots: Sequence[list[str]]) -> str:
    """An SVG of plots side by side, under the legend."""
    width, height = WIDTH * len(plots), HEIGHT + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="white"/>'
    )
    parts = [head, *legend()]
    for number, drawn in enumerate(plots):
        parts += [f'<g transform="translate({number * WIDTH},20)">', *drawn, "</g>"]
    return "\n".join([*parts, "</svg>", ""])
