"""Pictures of text in many faces, sizes and colours, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HEIGHT = 48
"""Of the pictures of lines that PP-OCR reads."""
PAGE = (480, 640)


@dataclass(frozen=True)
class Page:
    """A picture [h, w, 3] of bytes, and the boxes (left, top, right, bottom) of its lines."""

    picture: np.ndarray
    boxes: np.ndarray


def line_picture(text: str, face: Path, rng: np.random.Generator) -> np.ndarray:
    """A line of text [48, w, 3], slightly turned, blurred and with noise."""
    paper, ink = colours(rng)
    font = ImageFont.truetype(str(face), int(rng.integers(9, 19)))
    left, top, right, bottom = font.getbbox(text)
    margin = int(rng.integers(4, 10))
    size = (int(right - left) + 2 * margin, int(bottom - top) + 2 * margin)
    picture = Image.new("RGB", size, paper)
    draw = ImageDraw.Draw(picture)
    draw.text((margin - left, margin - top), text, ink, font)
    picture = picture.rotate(rng.uniform(-1.0, 1.0), Image.Resampling.BICUBIC, fillcolor=paper)
    width = max(HEIGHT, round(picture.width * HEIGHT / picture.height / 8) * 8)
    return noisy(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), rng)


def page_picture(texts: list[str], faces: list[Path], rng: np.random.Generator) -> Page:
    """Lines of text below each other at random distances, until the page is full. A box is as high
    as the face's ascenders and descenders.
    """
    paper, ink = colours(rng)
    picture = Image.new("RGB", PAGE[::-1], paper)
    draw = ImageDraw.Draw(picture)
    places, y = [], int(rng.integers(15, 60))
    for text in texts:
        font = ImageFont.truetype(str(faces[rng.integers(len(faces))]), int(rng.integers(8, 26)))
        left, _, right, _ = font.getbbox(text)
        height = sum(font.getmetrics())
        room = PAGE[1] - int(right - left) - 20
        if room <= 10 or y + height > PAGE[0] - 10:
            continue
        x = int(rng.integers(10, room))
        draw.text((x, y), text, ink, font)
        places.append((x + left, y, x + right, y + height))
        y += height + int(rng.integers(8, 45))
    return Page(noisy(picture, rng), np.array(places, np.float64))


def colours(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of paper and ink: one lighter than the other, sometimes hardly."""
    light, dark = rng.integers(130, 256, 3), rng.integers(0, 110, 3)
    pair = (light, dark) if rng.random() < 0.75 else (dark, light)
    return tuple(map(int, pair[0])), tuple(map(int, pair[1]))


def noisy(picture: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """The picture, maybe blurred, with noise, as bytes [h, w, 3]."""
    blurred = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 1.2)))
    values = np.asarray(blurred, np.float64)
    values += rng.normal(0, rng.uniform(4, 30), values.shape)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
