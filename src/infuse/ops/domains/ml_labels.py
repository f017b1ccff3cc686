"""Labels and dictionaries (ai.onnx.ml): elements looked up in lists, one-hot codes, maps from and
to tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import MapType, SequenceType, TensorType
from infuse.ops.core.base import Array, Inferred, Sample
from infuse.ops.core.elementwise import f32
from infuse.ops.core.numerals import integer, number
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import int64s
from infuse.ops.domains.ml import (
    MlOp,
    as_texts,
    label_type,
    labels_of,
    operator_hash,
    require_number,
    same_operator,
    table,
)

LABELS = (
    dtypes.float32,
    dtypes.float64,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.string,
)


class LabelEncoder(MlOp):
    """Each element replaced by the value that stands beside it in the list of keys, or by the
    default.

    Of equal keys the last counts; NaN equals NaN.
    """

    keys_int64s: tuple[int, ...] = ()
    keys_strings: tuple[str, ...] = ()
    keys_floats: tuple[float, ...] = ()
    keys_tensor: Any = None
    values_int64s: tuple[int, ...] = ()
    values_strings: tuple[str, ...] = ()
    values_floats: tuple[float, ...] = ()
    values_tensor: Any = None
    default_int64: int = -1
    default_string: str = "_Unused"
    default_float: float = -0.0
    default_tensor: Any = None

    since = 4
    __eq__ = same_operator
    __hash__ = operator_hash
    samples = (
        cases(
            x=[Ints((2, 3), 0, 5), Ints((40,), -3, 9)],
            keys_int64s=[(1, 2, 3, -3), (7,) * 4],
            values_floats=[(0.5, 1.5, 2.5, 3.5)],
        ),
        cases(
            x=[f32(1, np.nan, 2, -0.0, 9)],
            keys_floats=[(2.0, float("nan"), 0.0)],
            values_int64s=[(1, 2, 3)],
        ),
        cases(
            x=[as_texts(["a", "c", "b", ""]).reshape(2, 2)],
            keys_strings=[("a", "b", "a")],
            values_int64s=[(1, 2, 3)],
        ),
        cases(
            x=[Ints((3,), 0, 3)],
            keys_int64s=[(0, 1)],
            values_strings=[("zero", "one")],
            default_string=["?"],
        ),
        cases(
            x=[np.array([1, 2, 3], np.int32)],
            keys_tensor=[np.array([3, 1], np.int32)],
            values_tensor=[np.array([0.1, 0.2], np.float64)],
            default_tensor=[np.array([0.5], np.float64)],
        ),
        cases(
            x=[np.array([1, 0.1], np.float64)],
            keys_tensor=[np.array([0.1, 5], np.float64)],
            values_tensor=[np.array([7, 9], np.int16), np.array([7, 9], np.int32)],
            default_tensor=[None],
        ),
    )

    def pairs(self) -> tuple[Array, Array]:
        """Keys and values, side by side; TypeMismatchError where they are no two lists of equal
        length.
        """
        keys = _listed(
            "keys", self.keys_int64s, self.keys_strings, self.keys_floats, self.keys_tensor
        )
        values = _listed(
            "values",
            self.values_int64s,
            self.values_strings,
            self.values_floats,
            self.values_tensor,
        )
        if keys.ndim != 1 or keys.shape != values.shape:
            raise TypeMismatchError(f"{self.name} has {keys.size} keys and {values.size} values")
        return keys, values

    def default(self, values: Array) -> Array:
        """What stands for elements that are no key, of the type of the values."""
        kind = dtypes.by_numpy(values.dtype)
        if self.default_tensor is not None and self.values_tensor is not None:
            return np.asarray(self.default_tensor).reshape(-1)[:1].astype(values.dtype).reshape(())
        if self.values_tensor is not None:
            plain: Any = "_Unused" if kind == dtypes.string else -0.0 if kind.is_float else -1
        else:
            plain = self.default_string if kind == dtypes.string else None
            plain = (
                plain
                if plain is not None
                else self.default_float
                if kind.is_float
                else self.default_int64
            )
        return np.array(plain, dtype=values.dtype)

    def infer(self, x: Value) -> Inferred:
        keys, values = self.pairs()
        if x.dtype != dtypes.by_numpy(keys.dtype):
            raise TypeMismatchError(
                f"{self.name} has keys that are {dtypes.by_numpy(keys.dtype)}, found {x.dtype}"
            )
        return TensorType(
            require_number(self.name, Value(TensorType(dtypes.by_numpy(values.dtype), ())), LABELS),
            x.tensor.shape,
        )

    def eval(self, x: Array) -> Array:
        mapping, default, dtype = self._mapping
        elements = x.reshape(-1).tolist()
        if x.dtype == object:
            listed = list(map(mapping.get, elements, repeat(default)))
        else:
            listed = [mapping.get(_key(v), default) for v in elements]
        labels = np.empty(x.size, dtype=dtype)
        labels[:] = listed
        return labels.reshape(x.shape)

    @cached_property
    def _mapping(self) -> tuple[dict[Any, Any], Any, Any]:
        keys, values = self.pairs()
        mapping = dict(zip(map(_key, keys.tolist()), values.tolist()))
        return mapping, self.default(values).item(), values.dtype


def _key(element: Any) -> Any:
    return "NaN of floats" if element != element else element


def _listed(what: str, ints: Any, texts: Any, floats: Any, tensor: Any) -> Array:
    lists = [v for v in (ints, texts, floats) if v]
    if len(lists) + (tensor is not None) > 1:
        raise TypeMismatchError(f"LabelEncoder needs one list of {what}, several are given")
    if tensor is not None:
        return np.asarray(tensor)
    if texts:
        return as_texts(texts)
    return np.array(floats, dtype=np.float32) if floats else np.array(ints, dtype=np.int64)


class CategoryMapper(MlOp):
    """Strings replaced by the integers beside them in two lists, or integers by the strings."""

    cats_int64s: tuple[int, ...] = ()
    cats_strings: tuple[str, ...] = ()
    default_int64: int = -1
    default_string: str = "_Unused"
    samples = (
        cases(
            x=[as_texts(["b", "x", "a"])],
            cats_int64s=[(1, 2)],
            cats_strings=[("a", "b")],
            default_int64=[-1, 7],
        ),
        cases(
            x=[int64s(2, 9)],
            cats_int64s=[(1, 2)],
            cats_strings=[("a", "b")],
            default_string=["_Unused", ""],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        if len(self.cats_int64s) != len(self.cats_strings):
            raise TypeMismatchError(
                f"{self.name} has {len(self.cats_int64s)} integers, {len(self.cats_strings)} "
                "strings"
            )
        is_text = require_number(self.name, x, (dtypes.int64, dtypes.string)) == dtypes.string
        return TensorType(dtypes.int64 if is_text else dtypes.string, x.tensor.shape)

    def eval(self, x: Array) -> Array:
        if x.dtype == object:
            numbers = dict(zip(self.cats_strings, self.cats_int64s))
            return np.array(
                [numbers.get(v, self.default_int64) for v in x.reshape(-1)], np.int64
            ).reshape(x.shape)
        names = dict(zip(self.cats_int64s, self.cats_strings))
        return as_texts(
            [names.get(v, self.default_string) for v in x.reshape(-1).tolist()]
        ).reshape(x.shape)


class OneHotEncoder(MlOp):
    """A new last axis with one at the place of the element in the list of categories, else zeros.

    Without `zeros` an element that is no category is an error. Numbers are looked up as integers.
    """

    cats_int64s: tuple[int, ...] = ()
    cats_strings: tuple[str, ...] = ()
    zeros: int = 1
    samples = (
        cases(
            x=[Ints((4,), 0, 5), Ints((2, 3), 0, 5), f32(1, 2.5, 7)],
            cats_int64s=[(1, 2, 4), (7,)],
            zeros=[1],
        ),
        cases(
            x=[np.array([4, 2, 2], np.int32), np.array([[2.0, 4.9]], np.float64)],
            cats_int64s=[(1, 2, 4)],
            zeros=[0, 1],
        ),
        cases(x=[as_texts(["a", "b", "z"])], cats_strings=[("b", "z", "")]),
    )

    def categories(self) -> Array:
        """The list of categories."""
        return labels_of(self.name, self.cats_int64s, self.cats_strings)

    def infer(self, x: Value) -> Inferred:
        categories, dtype = self.categories(), require_number(self.name, x, LABELS)
        if (dtype == dtypes.string) != (categories.dtype == object):
            raise TypeMismatchError(
                f"{self.name} has categories that are {label_type(categories)}, found {dtype}"
            )
        shape = x.tensor.shape
        return TensorType(dtypes.float32, None if shape is None else (*shape, len(categories)))

    def eval(self, x: Array) -> Array:
        categories = self.categories()
        places = {category: i for i, category in enumerate(categories.tolist())}
        plain = x if x.dtype == object else x.astype(np.int64)
        indices = [places.get(v, -1) for v in plain.reshape(-1).tolist()]
        if not self.zeros and min(indices, default=0) < 0:
            raise ShapeError(f"{self.name} is given an element that is not a category")
        places_found = np.array(indices, dtype=np.int64).reshape(*x.shape, 1)
        result: Array = places_found == np.arange(len(categories))
        return result.astype(np.float32)


class ZipMap(MlOp):
    """A dictionary for each row, from the class labels to the elements of the row."""

    classlabels_int64s: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    samples = (
        cases(x=[(2, 3), (3,)], classlabels_int64s=[(4, 0, 7)]),
        Sample({"x": (2, 2)}, {"classlabels_strings": ("no", "yes")}),
    )

    def infer(self, x: Value) -> Inferred:
        labels = labels_of(self.name, self.classlabels_int64s, self.classlabels_strings)
        require_number(self.name, x)
        shape = x.tensor.shape
        if shape is not None and (
            len(shape) not in (1, 2) or not must_equal(shape[-1], len(labels))
        ):
            raise ShapeError(f"{self.name} has {len(labels)} labels, found {x.type}")
        return SequenceType(MapType(label_type(labels), TensorType(dtypes.float32, ())))

    def eval(self, x: Array) -> list[Mapping[Any, float]]:
        labels = labels_of(self.name, self.classlabels_int64s, self.classlabels_strings).tolist()
        if x.shape[-1] != len(labels):
            raise ShapeError(f"{self.name} has {len(labels)} labels for {x.shape[-1]} columns")
        return [
            dict(zip(labels, row)) for row in x.astype(np.float32).reshape(-1, len(labels)).tolist()
        ]


def map_of(op: str, x: Value) -> tuple[DType, DType]:
    """Types of keys and values of a map; TypeMismatchError when it is none."""
    if not isinstance(x.type, MapType) or not isinstance(x.type.element, TensorType):
        raise TypeMismatchError(f"{op} takes a map of numbers or strings, found {x.type}")
    return x.type.key, x.type.element.dtype


class DictVectorizer(MlOp):
    """The values of a map in the order of a vocabulary of its keys; zero where it lacks one."""

    int64_vocabulary: tuple[int, ...] = ()
    string_vocabulary: tuple[str, ...] = ()
    samples = (
        cases(
            x=[{"a": 4.0, "c": 8.0}, {"b": 1, "z": -2}], string_vocabulary=[("a", "c", "b", "z")]
        ),
        cases(x=[{3: 0.5}], int64_vocabulary=[(1, 3)]),
    )

    def infer(self, x: Value) -> Inferred:
        keys = labels_of(self.name, self.int64_vocabulary, self.string_vocabulary)
        kind, element = map_of(self.name, x)
        if kind != label_type(keys):
            raise TypeMismatchError(
                f"{self.name} has keys that are {label_type(keys)}, found {x.type}"
            )
        return TensorType(element, (1, len(keys)))

    def eval(self, x: Mapping[Any, Any]) -> Array:
        keys = labels_of(self.name, self.int64_vocabulary, self.string_vocabulary).tolist()
        unknown = [key for key in x if key not in keys]
        if unknown:
            raise TypeMismatchError(
                f"the map has the key {unknown[0]!r}, which {self.name} does not know"
            )
        first = next(iter(x.values()), 0.0)
        if isinstance(first, str):
            return as_texts([x.get(key, "") for key in keys]).reshape(1, -1)
        dtype = np.float32 if isinstance(first, float) else np.asarray(first).dtype
        return np.array([[x.get(key, 0) for key in keys]], dtype=dtype)


class CastMap(MlOp):
    """The values of a map in the order of its integer keys, or at the places that the keys name, as
    another type.
    """

    cast_to: str = "TO_FLOAT"
    map_form: str = "DENSE"
    max_map: int = 1
    samples = (
        cases(
            x=[{3: 1.5, 1: -2.5}, {0: "7", 2: "8"}],
            cast_to=["TO_FLOAT", "TO_STRING", "TO_INT64"],
            map_form=["SPARSE"],
            max_map=[5],
        ),
        cases(x=[{3: 1.0, 1: 2.0}], cast_to=["TO_INT64", "TO_FLOAT"]),
    )

    def infer(self, x: Value) -> Inferred:
        from infuse.ops.core.sizes import fresh_dim

        kind, _ = map_of(self.name, x)
        kinds = {"TO_FLOAT": dtypes.float32, "TO_STRING": dtypes.string, "TO_INT64": dtypes.int64}
        if (
            kind != dtypes.int64
            or self.cast_to not in kinds
            or self.map_form not in ("DENSE", "SPARSE")
        ):
            raise TypeMismatchError(
                f"{self.name} cannot bring {x.type} to {self.cast_to} in form {self.map_form}"
            )
        size = self.max_map if self.map_form == "SPARSE" else fresh_dim("map")
        return (
            table(kinds[self.cast_to], (1, size), 1)
            if size == 1
            else TensorType(kinds[self.cast_to], (1, size))
        )

    def eval(self, x: Mapping[int, Any]) -> Array:
        def convert(value: Any) -> Any:
            if self.cast_to == "TO_STRING":
                return str(value)
            if not isinstance(value, str):
                return float(value) if self.cast_to == "TO_FLOAT" else int(value)
            return number(value) if self.cast_to == "TO_FLOAT" else integer(value)

        if self.map_form == "DENSE":
            elements = [convert(x[key]) for key in sorted(x)]
        else:
            if any(not 0 <= key < self.max_map for key in x):
                raise ShapeError(
                    f"the map has a key outside of the {self.max_map} places of {self.name}"
                )
            elements = [
                convert(x[key]) if key in x else "" if self.cast_to == "TO_STRING" else 0
                for key in range(self.max_map)
            ]
        if self.cast_to == "TO_STRING":
            return as_texts(elements).reshape(1, -1)
        return np.array([elements], np.float32 if self.cast_to == "TO_FLOAT" else np.int64)
