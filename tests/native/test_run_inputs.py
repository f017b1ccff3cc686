"""What `run` takes in place of arrays by name, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import infuse
from infuse.errors import InputError
from infuse.ir.parser import parse
from infuse.runtime.shapes import TensorSpec
from infuse.runtime.tables import columns_of

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
ONE = """graph "one" (%x: float32[n, 2]) {
  %y = Add(%x, float32[]{1.0})
  return y = %y
}"""
TWO = """graph "two" (%x: float32[n, 2], %z: float32[n, 2]) {
  %y = Add(%x, %z)
  return y = %y
}"""
TEXTS = """graph "texts" (%x: string[n]) {
  %upper = StringNormalizer(%x, case_change_action="UPPER")
  return y = %upper
}"""


COLUMNS = """graph "columns" (%age: float64[n, 1], %sex: string[n, 1], %count: int64[n]) {
  %more = Add(%age, float64[]{1.0})
  %is_male = Equal(%sex, string[1, 1]{"male"})
  return age = %more, male = %is_male, count = %count
}"""


class Columns:
    """What a DataFrame of polars looks like: columns by name, each with an element type."""

    def __init__(self, **columns: Any) -> None:
        self.data = columns
        self.columns = [*columns]

    def to_numpy(self) -> np.ndarray:
        return np.stack([*self.data.values()], axis=1)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.data[name]

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))


class Table:
    """What a DataFrame of pandas looks like."""

    columns = ("a", "b")
    shape = X.shape

    def to_numpy(self) -> np.ndarray:
        return X

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return X

    def __getitem__(self, name: str) -> np.ndarray:
        return X[:, 0]

    def __len__(self) -> int:
        return len(X)


@pytest.fixture(params=["compiled", "session", "background"])
def one(request: pytest.FixtureRequest) -> Iterator[Any]:
    how = "background" if request.param == "background" else "wait"
    with infuse.compile(parse(ONE), infuse.CompileOptions(compile=how, threads=1)) as model:
        yield model.session() if request.param == "session" else model


@pytest.mark.parametrize("array", [X, torch.from_numpy(X), X[::1].copy(order="F")], ids=type)
def test_an_array_is_that_of_the_only_input(one: Any, array: Any) -> None:
    np.testing.assert_array_equal(one.run(array)["y"], X + 1, strict=True)
    np.testing.assert_array_equal(one.run({"x": array})["y"], X + 1, strict=True)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (Table(), r"a Table, not arrays by name.*\{'x': table\.to_numpy\('float32'\)\}"),
        (None, r"are None, not arrays by name.*model\.run\(\{'x': …\}\).*x: float32\[n, 2\]"),
        ([X], r"a list, not arrays by name.*arrays in order"),
        ("x", "a str, not arrays by name"),
        (X.astype(np.float64), "element type float64"),
        (torch.from_numpy(X).requires_grad_(), r"not an array.*x\.detach\(\)"),
        (torch.from_numpy(X).bfloat16(), r"not an array.*view\(ml_dtypes\.bfloat16\)"),
        ({"x": torch.from_numpy(X).requires_grad_()}, r"not an array.*x\.detach\(\)"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_array_says_what_to_give(one: Any, inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        one.run(inputs)


def test_one_array_does_not_do_for_two_inputs() -> None:
    with infuse.compile(parse(TWO)) as model:
        for inputs in (X, torch.from_numpy(X)):
            with pytest.raises(InputError, match=r"needs 2.*\{'x': …, 'z': …\}"):
                model.run(inputs)
        with pytest.raises(InputError, match=r"a table whose columns have the names"):
            model.run(Table())


def test_an_input_with_a_default_need_not_be_there() -> None:
    graph = parse(TWO.replace("n, 2", "3, 2"))
    graph.inputs[1].default = X
    with infuse.compile(infuse.optimize(graph, fix_defaults=False)) as model:
        np.testing.assert_array_equal(model.run(X)["y"], X + X)


def test_texts_are_arrays_too() -> None:
    with infuse.compile(parse(TEXTS)) as model:
        assert model.host_steps
        assert [*model.run(np.array(["a", "b"], object))["y"]] == ["A", "B"]
        with pytest.raises(InputError, match=r"a list, not arrays by name.*\{'x': …\}"):
            model.run(["a", "b"])


# -- tables ----------------------------------------------------------------------------------------

AGES = np.array([1.5, np.nan, 3.0])
SEXES = np.array(["male", "female", "male"], object)


def test_a_table_goes_by_the_names_of_its_columns() -> None:
    with infuse.compile(parse(COLUMNS)) as model:
        counts = np.array([2**62 + 1, 2, 3])
        table = Columns(count=counts, other=SEXES, sex=SEXES, age=AGES.astype(np.float32))
        made = model.run(table)
        np.testing.assert_array_equal(made["age"], AGES[:, None] + 1)
        assert made["male"].tolist() == [[True], [False], [True]]
        assert made["count"].tolist() == counts.tolist()


@pytest.mark.parametrize(
    ("column", "made"),
    [
        (np.array([1, None, 3], object), [1.0, np.nan, 3.0]),
        (np.array([True, False]), [1.0, 0.0]),
        (np.array(["1.5", "2"], object), [1.5, 2.0]),
        (np.array([2**60, 1], np.uint64), [2.0**60, 1.0]),
        (np.zeros(0, np.int8), []),
    ],
    ids=str,
)
def test_columns_of_numbers(column: Any, made: list[float]) -> None:
    spec = TensorSpec("x", np.dtype(np.float64), ("n", 1))
    array = columns_of(Columns(x=column), [spec])["x"]
    np.testing.assert_array_equal(array, np.array(made).reshape(-1, 1), strict=True)


class NAType:
    """What pandas has for a missing element; it is neither equal to itself nor not."""

    def __eq__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")


@pytest.mark.parametrize(
    ("column", "made"),
    [
        (
            np.array(["a", None, np.nan, NAType(), 3, True], object),
            ["a", None, "nan", "nan", "3", "True"],
        ),
        (np.array([5, -3, 5], np.int8), ["5", "-3", "5"]),
        (np.array([2**63 + 5, 0], np.uint64), ["9223372036854775813", "0"]),
        (np.array([-(2**63), 2**63 - 1]), ["-9223372036854775808", "9223372036854775807"]),
        (np.array([True, False]), ["True", "False"]),
        (np.array(["a", "é"]), ["a", "é"]),
        (np.zeros(0, np.int64), []),
    ],
    ids=lambda each: str(getattr(each, "dtype", "")),
)
def test_columns_of_texts(column: Any, made: list[Any]) -> None:
    spec = TensorSpec("x", np.dtype(object), ("n",))
    array = columns_of(Columns(x=column), [spec])["x"]
    assert [v if isinstance(v, str) or v is None else str(v) for v in array] == made


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sex": SEXES, "age": AGES}, r"no column 'count'.*count: int64\[n\]"),
        ({"sex": SEXES, "age": SEXES, "count": np.arange(3)}, r"column 'age' does not fit.*male"),
        ({"sex": SEXES, "age": AGES, "count": AGES}, r"column 'count'.*no int64"),
        ({"sex": SEXES, "age": np.array(3 * ["2020"], "M8[s]"), "count": np.arange(3)}, "datetime"),
        ({"sex": SEXES, "age": AGES, "count": X[:, :2]}, "several columns 'count'"),
    ],
)
def test_a_table_that_does_not_fit(columns: dict[str, Any], message: str) -> None:
    with (
        infuse.compile(parse(COLUMNS)) as model,
        pytest.raises(InputError, match=message),
    ):
        model.run(Columns(**columns))


def test_tables_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="has tables")
    missing = pandas.NA
    table = pandas.DataFrame(
        {
            "number": pandas.array([1, missing, 3], "Int64"),
            "text": pandas.array(["a", missing, "c"], "string"),
            "truth": pandas.array([True, missing, False], "boolean"),
            "category": pandas.Categorical(["x", None, "y"]),
            "digits": pandas.Categorical([7, 5, None]),
            "mixed": np.array(["a", None, 3], object),
        }
    )
    texts = {
        "number": ["1", np.nan, "3"],
        "text": ["a", np.nan, "c"],
        "truth": ["True", np.nan, "False"],
        "category": ["x", np.nan, "y"],
        "digits": ["7", "5", np.nan],
        "mixed": ["a", None, "3"],
    }
    numbers = {"number": [1, np.nan, 3], "truth": [1, np.nan, 0], "digits": [7, 5, np.nan]}
    for rows in (table, pandas.concat([table] * 200)):
        for kind, columns in ((object, texts), (np.float64, numbers)):
            specs = [TensorSpec(name, np.dtype(kind), ("n",)) for name in columns]
            for name, array in columns_of(rows, specs).items():
                assert array.dtype == kind
                np.testing.assert_equal(array[:3].tolist(), columns[name])


def test_tables_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="has tables")
    table = polars.DataFrame(
        {"whole": [1, None, 3], "text": ["a", None, "é"], "truth": [True, None, False]}
    )
    texts = [["1", None, "3"], ["a", None, "é"], ["True", None, "False"]]
    for rows in (table, polars.concat([table] * 200)):
        specs = [TensorSpec(name, np.dtype(object), ("n",)) for name in table.columns]
        assert [array[:3].tolist() for array in columns_of(rows, specs).values()] == texts
        specs = [TensorSpec(name, np.dtype(np.float64), ("n", 1)) for name in ("whole", "truth")]
        made = columns_of(rows, specs)
        np.testing.assert_equal(made["whole"][:3], [[1], [np.nan], [3]])
        np.testing.assert_equal(made["truth"][:3], [[1], [np.nan], [0]])
