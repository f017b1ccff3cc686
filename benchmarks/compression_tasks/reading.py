"""PP-OCRv6: lines of rendered text that the recognizer reads, and pages on which the detector
finds them. Text and places are certain, since they are drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.compression_tasks.base import Answers, Feeds, Prepared, Recipe, Truth
from benchmarks.compression_tasks.drawing import Page, line_picture, page_picture
from benchmarks.compression_tasks.packages import Packages
from benchmarks.compression_tasks.verses import verses

LINES, PAGES = (80, 300), (24, 60)
"""How many calibrate, and how many are the test."""
CERTAIN, MEAN_CERTAIN, GROWTH = 0.3, 0.5, 1.6
"""Of a pixel, of the mean of a box, and the ratio by which a box grows: as PP-OCR has them."""
OVERLAP = 0.5


def fonts(packages: Packages) -> list[Path]:
    """Six faces of DejaVu."""
    return sorted(packages.debian("fonts-dejavu-core").glob("usr/share/fonts/truetype/*/*.ttf"))


def models(packages: Packages) -> Path:
    """The folder of the networks."""
    return packages.pypi("rapidocr", "3.10.0") / "rapidocr" / "models"


def pixels(picture: np.ndarray) -> np.ndarray:
    """A picture [h, w, 3] of bytes as both networks read it: float32 [1, 3, h, w], -1 to 1."""
    return (picture.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None]


def phrases(packages: Packages, count: int, rng: np.random.Generator) -> list[str]:
    """Texts of two to five words of the Bible; every third has a number too."""
    texts = verses(packages)
    chosen = []
    for index in range(count):
        words = texts[rng.integers(len(texts))].split()
        start = int(rng.integers(max(1, len(words) - 5)))
        phrase = words[start : start + int(rng.integers(2, 6))]
        if index % 3 == 0:
            phrase.append(f"{rng.integers(10_000)}")
        chosen.append(" ".join(phrase))
    return chosen


# -- reading ---------------------------------------------------------------------------------------


def lines(packages: Packages) -> Prepared:
    """The recognizer, and pictures of lines of text."""
    import onnx

    rng = np.random.default_rng(0)
    faces = fonts(packages)
    texts = phrases(packages, sum(LINES), rng)
    feeds: list[Feeds] = [
        {"x": pixels(line_picture(text, faces[i % len(faces)], rng))}
        for i, text in enumerate(texts)
    ]
    path = models(packages) / "PP-OCRv6_rec_small.onnx"
    entries = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    letters = ["", *entries["character"].split("\n"), " "]
    truth = {"texts": np.array(texts[LINES[0] :]), "letters": np.array(letters)}
    return Prepared(path.read_bytes(), feeds[: LINES[0]], feeds[LINES[0] :], truth)


def read(scores: np.ndarray, letters: np.ndarray) -> str:
    """The text of scores [steps, letters]: the best letter of each step, where it changes and is
    not the first one, which is blank.
    """
    best = [index for index, _ in itertools.groupby(scores.argmax(-1))]
    return "".join(str(letters[index]) for index in best if index)


def edits(first: str, second: str) -> int:
    """Letters to insert, delete or replace so that one text becomes the other (Levenshtein)."""
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


def characters_right(answers: Sequence[Answers], truth: Truth) -> float:
    """One less the edits to all texts over their letters."""
    texts = [str(text) for text in truth["texts"]]
    wrong = sum(
        edits(read(next(iter(one.values()))[0], truth["letters"]), text)
        for one, text in zip(answers, texts, strict=True)
    )
    return 1 - wrong / sum(map(len, texts))


# -- detection -------------------------------------------------------------------------------------


def pages(packages: Packages) -> Prepared:
    """The detector, and pages with lines of text."""
    rng = np.random.default_rng(1)
    faces = fonts(packages)
    drawn: list[Page] = []
    for _ in range(sum(PAGES)):
        texts = phrases(packages, int(rng.integers(4, 10)), rng)
        drawn.append(page_picture(texts, faces, rng))
    feeds: list[Feeds] = [{"x": pixels(page.picture)} for page in drawn]
    tested = drawn[PAGES[0] :]
    truth = {
        "boxes": np.concatenate([page.boxes for page in tested]),
        "counts": np.array([len(page.boxes) for page in tested]),
    }
    model = (models(packages) / "PP-OCRv6_det_small.onnx").read_bytes()
    return Prepared(model, feeds[: PAGES[0]], feeds[PAGES[0] :], truth)


def boxes(scores: np.ndarray) -> np.ndarray:
    """Boxes (left, top, right, bottom) of connected pixels of a map [h, w], grown to the size of
    text as differentiable binarization has it.
    """
    from scipy import ndimage

    labels, _ = ndimage.label(ndimage.binary_dilation(scores > CERTAIN, np.ones((2, 2))))
    result = []
    for rows, columns in ndimage.find_objects(labels):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if min(height, width) < 3 or scores[rows, columns].mean() < MEAN_CERTAIN:
            continue
        grown = GROWTH * height * width / (2 * (height + width))
        sides = (columns.start - grown, rows.start - grown)
        result.append((*sides, columns.stop + grown, rows.stop + grown))
    return np.array(result, np.float64).reshape(-1, 4)


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of all pairs of boxes [n, 4] and [m, 4]."""
    corner = np.maximum(first[:, None, :2], second[None, :, :2])
    opposite = np.minimum(first[:, None, 2:], second[None, :, 2:])
    common = np.maximum(opposite - corner, 0).prod(-1)
    areas = [(b[:, 2:] - b[:, :2]).prod(-1) for b in (first, second)]
    return common / (areas[0][:, None] + areas[1][None] - common)


def boxes_f1(answers: Sequence[Answers], truth: Truth) -> float:
    """The F1 score of boxes; a pair counts once, from an overlap of OVERLAP on."""
    from scipy.optimize import linear_sum_assignment

    hits = said = 0
    ends = np.cumsum(truth["counts"])[:-1]
    for one, right in zip(answers, np.split(truth["boxes"], ends), strict=True):
        detected = boxes(next(iter(one.values()))[0, 0])
        said += len(detected)
        paired = overlaps(detected, right)
        hits += int(np.sum(paired[linear_sum_assignment(-paired)] >= OVERLAP))
    return 2 * hits / (said + len(truth["boxes"]))


RECIPES = (
    Recipe("ppocr_reading", "1 - character error rate", lines, characters_right),
    Recipe("ppocr_detection", "F1 of boxes", pages, boxes_f1),
)
