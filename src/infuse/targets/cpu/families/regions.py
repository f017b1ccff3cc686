"""What detectors do with regions of images: pooling, and boxes that overlap better ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, writes


@writes("roi_align")
def roi_align(call: Arguments) -> Stores:
    """Bins of regions × channels: the mean, or the largest, of points between pixels."""
    s, scale, ratio, half, x, rois, images = call.arguments[:7]
    pixels = _images(s, x)
    result = np.zeros((s.regions, s.rows, s.columns, s.c))
    for region, box in enumerate(rois[: s.regions * 4].astype(np.float64).reshape(-1, 4)):
        image = pixels[int(images[region])]
        across = _points(box[0], box[2], scale, s.columns, ratio, half)
        down = _points(box[1], box[3], scale, s.rows, ratio, half)
        rows, columns = _between(down, s.h), _between(across, s.w)
        # [row, point, near or far, column, point, near or far, channel]
        weights = np.multiply.outer(rows[1], columns[1])[..., None]
        corners = weights * image[rows[0]][:, :, :, columns[0]]
        if call.template[0] == "true":
            if down.shape[1] and across.shape[1]:
                result[region] = corners.max((1, 2, 4, 5))
        else:
            count = max(down.shape[1] * across.shape[1], 1)
            result[region] = corners.sum((1, 2, 4, 5)) / count
    return {7: result}


def _images(s: Any, x: Array) -> Array:
    images: Array = x[: s.n * s.h * s.w * s.c].astype(np.float64).reshape(s.n, s.h, s.w, s.c)
    return images


def _points(start: float, end: float, scale: float, bins: int, ratio: int, half: bool) -> Array:
    """Where the points of the bins along an axis lie: [bins, points]."""
    first = start * scale - (0.5 if half else 0)
    size = end * scale - (0.5 if half else 0) - first
    width = (size if half else max(size, 1)) / bins
    count = ratio if ratio > 0 else max(int(np.ceil(width)), 0)
    within = (np.arange(count) + 0.5) / max(count, 1)
    return np.asarray(first + np.add.outer(np.arange(bins), within) * width)


def _between(places: Array, size: int) -> tuple[Array, Array]:
    """The two pixels at each place and what they weigh: nothing outside of the image."""
    inside = (places >= -1) & (places <= size)
    at = np.clip(places, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    far = at - low
    pixels = np.stack([low, np.minimum(low + 1, size - 1)], axis=-1)
    return pixels, np.stack([1 - far, far], axis=-1) * inside[..., None]


@writes("max_roi_pool")
def max_roi_pool(call: Arguments) -> Stores:
    """Bins of regions × channels: the largest pixel, 0 where there is none."""
    s, scale, x, rois = call.arguments[:4]
    pixels = _images(s, x)
    result = np.zeros((s.regions, s.rows, s.columns, s.c))
    for region, box in enumerate(rois[: s.regions * 5].reshape(-1, 5)):
        scaled = box[1:] * box.dtype.type(scale)
        left, top, right, bottom = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(int)
        rows, columns = _bins(top, bottom, s.rows, s.h), _bins(left, right, s.columns, s.w)
        for row, column in np.ndindex(s.rows, s.columns):
            part = pixels[int(box[0]), slice(*rows[row]), slice(*columns[column])]
            if part.shape[0] * part.shape[1]:
                result[region, row, column] = part.max((0, 1))
    return {4: result}


def _bins(start: int, end: int, count: int, size: int) -> list[tuple[int, int]]:
    extent = max(end - start + 1, 1)
    edges = [
        (start + i * extent // count, start - (-(i + 1) * extent // count)) for i in range(count)
    ]
    return [(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]


# -- boxes -----------------------------------------------------------------------------------------


@writes("box_corners")
def box_corners(call: Arguments) -> Stores:
    """Top, left, bottom, right and area of the boxes of each image: [images, 5, boxes]."""
    images, boxes, centers, x = call.arguments[:4]
    a, b = np.split(x[: images * boxes * 4].astype(np.float64).reshape(images, boxes, 4), 2, axis=2)
    first, last = (a - b / 2, a + b / 2) if centers else (np.minimum(a, b), np.maximum(a, b))
    area = np.prod(last - first, axis=2, keepdims=True)
    return {4: np.concatenate([first, last, area], axis=2).transpose(0, 2, 1)}


@writes("suppress")
def suppress(call: Arguments) -> Stores:
    """The boxes of every image and class that no better one overlaps too much, best first; and how
    many there are.
    """
    s, room, rows, scores = call.arguments[:4]
    corners = rows[: s.images * 5 * s.boxes].astype(np.float64).reshape(s.images, 5, s.boxes)
    units = s.images * s.classes
    boxes_left, counts = np.full((units, room), -1, np.int32), np.zeros(units, np.int32)
    for unit, own in enumerate(scores[: units * s.boxes].reshape(units, s.boxes)):
        chosen: list[int] = []
        for box in np.argsort(-own, kind="stable"):
            if len(chosen) >= min(s.most, room):
                break
            good = not s.has_least or own[box] > s.least
            if good and not _overlaps(corners[unit // s.classes], int(box), chosen, s.overlap):
                chosen.append(int(box))
        boxes_left[unit, : len(chosen)], counts[unit] = chosen, len(chosen)
    return {4: boxes_left, 5: counts}


def _overlaps(corners: Array, box: int, others: list[int], most: float) -> bool:
    """Whether the part of the area that a box has in common with others is more than `most`."""
    high = np.minimum(corners[2, box], corners[2, others]) - np.maximum(
        corners[0, box], corners[0, others]
    )
    wide = np.minimum(corners[3, box], corners[3, others]) - np.maximum(
        corners[1, box], corners[1, others]
    )
    common = np.maximum(high, 0) * np.maximum(wide, 0)
    return bool((common > most * (corners[4, box] + corners[4, others] - common)).any())


@writes("list_kept")
def list_kept(call: Arguments) -> Stores:
    """The boxes as rows: image, class, number."""
    units, classes, room, boxes_left, counts = call.arguments[:5]
    unit = np.repeat(np.arange(units), counts[:units])
    boxes = boxes_left[: units * room].reshape(units, room)
    chosen = boxes[np.arange(room) < counts[:units, None]]
    return {5: np.stack([unit // classes, unit % classes, chosen], axis=1).astype(np.int64)}
