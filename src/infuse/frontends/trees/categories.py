"""Categories of CatBoost's models: numbers for trees, from hashes of their texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import numbers
from infuse.ir.graph import Array, Value
from infuse.ir.registry import make_operator
from infuse.tracing.importer import Importer

_MEANS: Final = ("BinarizedTargetMeanValue", "FloatTargetMeanValue")
_COUNTERS: Final = ("Counter", "FeatureFreq")
_CLASSES: Final = ("Borders", "Buckets")
_MULTIPLIER: Final = 0x4906BA494954CB65
"""What CatBoost makes one hash of several with."""


@dataclass(frozen=True)
class _Statistic:
    """What was seen of the target, or how often, where a combination of features has a hash; in
    float32, as CatBoost computes it.
    """

    elements: Sequence[Mapping[str, Any]]
    hashes: Array
    values: Array
    otherwise: Any
    borders: Array
    has_fractions: bool


@dataclass(frozen=True)
class Numbers:
    """The numeric features of a model: a table of them, the column of each, and of which NaN is
    above all borders.
    """

    table: Value | None
    places: Mapping[int, int]
    above: frozenset[int]


class Categories:
    """The categories of a model: `columns` columns that follow those of numbers."""

    def __init__(self, document: Mapping[str, Any], first: int) -> None:
        features = document["features_info"]
        listed = features.get("categorical_features") or []
        self.flat = {int(f["feature_index"]): int(f["flat_feature_index"]) for f in listed}
        """The place of each among all features."""
        self._members: dict[int, list[int]] = {
            int(f["feature_index"]): [int(v) for v in f["values"]] for f in listed if "values" in f
        }
        self._column: dict[tuple[int, int], int] = {}
        for feature, members in self._members.items():
            for member in members:
                self._column[feature, member] = first + len(self._column)
        tables = document.get("ctr_data") or {}
        self._statistics = [_statistic(one, tables) for one in features.get("ctrs") or []]
        self.has_fractions = any(one.has_fractions for one in self._statistics)
        """Whether a sum of targets, which CatBoost writes and cannot read again, is not whole."""
        self._first = first + len(self._column)
        self.columns = len(self._column) + len(self._statistics)
        borders = sum(len(f.get("borders") or []) for f in features.get("float_features") or [])
        self._splits = np.cumsum(
            [borders + len(self._column), *(len(s.borders) for s in self._statistics)]
        )

    def split(self, split: Mapping[str, Any]) -> tuple[int, float]:
        """The column of a split, and the border up to which rows go left."""
        kind = split["split_type"]
        if kind == "OneHotFeature":
            key = int(split["cat_feature_index"]), int(split["value"])
            if key not in self._column:
                raise ModelFileError(f"a split by category {key[1]}, which feature {key[0]} lacks")
            return self._column[key], 0.5
        if kind != "OnlineCtr":
            raise UnsupportedOperatorError(f"splits of type {kind!r} are not supported")
        number = int(split["split_index"])
        which = int(np.searchsorted(self._splits, number, "right")) - 1
        border = np.float32(split["border"])
        if not 0 <= which < len(self._statistics):
            raise ModelFileError(f"split {number} is none of the statistics of categories")
        if self._statistics[which].borders[number - self._splits[which]] != border:
            raise ModelFileError(f"split {number} has another border than its statistic")
        return self._first + which, float(border)

    def values(self, g: Importer, texts: Mapping[int, Value], given: Numbers) -> list[Value]:
        """The columns, float64 [batch, …], from the texts of each category by its place among all
        features, [batch, 1].
        """
        operator = make_operator("infuse", "HashText", {})
        hashes = {f: g.apply(operator, [texts[flat]])[0] for f, flat in self.flat.items()}
        parts = [
            g.cast(g("Equal", hashes[feature], g.constant([members])), dtypes.float64)
            for feature, members in self._members.items()
            if members
        ]
        for one in self._statistics:
            attributes = {
                "keys_tensor": one.hashes,
                "values_tensor": one.values,
                "default_tensor": np.array([one.otherwise], np.float32),
            }
            lookup = make_operator("ai.onnx.ml", "LabelEncoder", attributes)
            looked_up = g.apply(lookup, [self._hash(g, one.elements, hashes, given)])[0]
            parts.append(g.cast(looked_up, dtypes.float64))
        return parts

    def _hash(
        self,
        g: Importer,
        elements: Sequence[Mapping[str, Any]],
        hashes: Mapping[int, Value],
        given: Numbers,
    ) -> Value:
        """One number of a combination of features: int64 [batch, 1]."""
        factor = g.constant(np.array([[_MULTIPLIER]], np.int64))
        result: Value | None = None
        for element in elements:
            kind = element["combination_element"]
            if kind == "cat_feature_value":
                part = hashes[int(element["cat_feature_index"])]
            elif kind == "float_feature":
                part = g.cast(_above(g, element, given), dtypes.int64)
            elif kind == "cat_feature_exact_value":
                value = g.constant([[int(element["value"])]])
                same = g("Equal", hashes[int(element["cat_feature_index"])], value)
                part = g.cast(same, dtypes.int64)
            else:
                raise UnsupportedOperatorError(f"combinations with {kind!r} are not supported")
            scaled = g("Mul", part, factor)
            result = g("Mul", scaled if result is None else g("Add", result, scaled), factor)
        if result is None:
            raise ModelFileError("a combination of no features")
        return result


def _above(g: Importer, element: Mapping[str, Any], given: Numbers) -> Value:
    """Whether a number is above a border."""
    feature = int(element["float_feature_index"])
    assert given.table is not None, "its places are of numbers"
    column = g("Gather", given.table, g.constant([given.places[feature]]), axis=1)
    above = g("Greater", column, float(np.float32(element["border"])))
    return g("Or", above, g("IsNaN", column)) if feature in given.above else above


def _statistic(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> _Statistic:
    kind, elements = str(ctr["ctr_type"]), ctr["elements"]
    if kind not in (*_MEANS, *_COUNTERS, *_CLASSES):
        raise UnsupportedOperatorError(
            f"statistics of categories of type {kind!r} are not supported",
            hint="train with simple_ctr and combinations_ctr of Borders, Buckets, "
            "BinarizedTargetMeanValue or Counter",
        )
    table = _table(ctr["identifier"], elements, kind, tables)
    stride = int(table["hash_stride"])
    listed = table["hash_map"]
    if stride < 2 or len(listed) % stride or not listed:
        raise ModelFileError(f"a table of {len(listed)} numbers in rows of {stride}")
    hashes = np.array([int(v) for v in listed[::stride]], np.uint64).view(np.int64)
    rest = [v for i, v in enumerate(listed) if i % stride]
    seen = numbers(rest, np.float64, "hash_map").reshape(-1, stride - 1)
    prior, weight, shift, scale = (
        np.float32(ctr[key]) for key in ("prior_numerator", "prior_denomerator", "shift", "scale")
    )
    place = int(ctr["target_border_idx"])

    def ratio(good: Any, total: Any) -> Any:
        return ((np.float32(good) + prior) / (np.float32(total) + weight) + shift) * scale

    with np.errstate(divide="ignore", invalid="ignore"):
        if kind in _COUNTERS:
            total = int(table["counter_denominator"])
            values, otherwise = ratio(seen[:, 0], total), ratio(0, total)
        else:
            if stride < 3 or (kind in _CLASSES and not 0 <= place < stride - 1):
                raise ModelFileError(f"border {place} of rows of {stride - 1} classes")
            first = place + 1 if stride > 3 else 1
            good = (
                seen[:, 0]
                if kind in _MEANS
                else seen[:, place]
                if kind == "Buckets"
                else seen[:, first:].sum(axis=1)
            )
            values = ratio(good, seen[:, 1] if kind in _MEANS else seen.sum(axis=1))
            otherwise = ratio(0, 0)
    borders = numbers(ctr["borders"], np.float32, "borders")
    has_fractions = bool((seen != np.trunc(seen)).any())
    return _Statistic(elements, hashes, values, otherwise, borders, has_fractions)


def _table(
    name: str, elements: Sequence[Mapping[str, Any]], kind: str, tables: Mapping[str, Any]
) -> Any:
    """The table of a statistic, whose key is the text of what it is of."""
    if name in tables:
        return tables[name]
    for key, table in tables.items():
        if json.loads(key) == {"identifier": list(elements), "type": kind}:
            return table
    raise ModelFileError(f"there is no table {name[:80]!r}")
