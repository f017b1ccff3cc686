"""Imputers of scikit-learn beside it: missing texts and numbers, the nearest rows."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.errors import InputError
from infuse.ops.core.evaluate import evaluate

sklearn = pytest.importorskip("sklearn", reason="fits the models")

from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
MISSING = pytest.mark.parametrize("missing", [None, np.nan, "?"], ids=str)


def _column(*values: Any) -> Any:
    listed = np.empty(len(values), object)
    listed[:] = values
    return listed[RNG.integers(0, len(values), 60)]


def _texts(missing: Any) -> tuple[Any, Any]:
    """A table, the last column of which is missing as a whole, and other rows."""
    columns = [_column("a", "b", missing), _column("x", missing), _column("only"), _column(missing)]
    rows = [["zz", missing, "q", missing], [missing, "nan", "None", ""]]
    return np.stack(columns, axis=1), np.array(rows, object)


def same(found: Any, expected: Any) -> None:
    """Equal texts; a NaN is a NaN."""
    assert found.shape == expected.shape
    for one, other in zip(found.ravel().tolist(), expected.ravel().tolist(), strict=True):
        assert one == other or (one != one and other != other)


def agrees(model: Any, *tables: Any, tolerance: float = 1e-12) -> None:
    """Each table as the library transforms it."""
    graph = infuse.load(model)
    for x in tables:
        feeds = {"x": x}
        if len(graph.inputs) > 1:
            kinds = [object if v.dtype is dtypes.string else float for v in graph.inputs]
            feeds = {f"x{i}": x[:, i : i + 1].astype(kind) for i, kind in enumerate(kinds)}
        found, expected = evaluate(graph, feeds)["transformed"], model.transform(x.copy())
        expected = expected.toarray() if hasattr(expected, "toarray") else expected
        if expected.dtype == object:
            same(found, expected)
        else:
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@MISSING
@pytest.mark.parametrize(
    "options",
    [{"strategy": "most_frequent"}, {"strategy": "constant"}, {"fill_value": "gone"}],
    ids=str,
)
def test_missing_texts(missing: Any, options: Any) -> None:
    table, others = _texts(missing)
    options = {"strategy": "constant", "missing_values": missing, **options}
    agrees(SimpleImputer(**options).fit(table), table, others, others[:1])
    indicated = SimpleImputer(add_indicator=True, **options)
    with pytest.raises(InputError, match="numbers and texts together"):
        infuse.load(indicated.fit(table))
    encoded = make_pipeline(indicated, OneHotEncoder(handle_unknown="ignore"))
    agrees(encoded.fit(table), table, others)


@MISSING
def test_indicators_and_columns_of_texts_and_numbers(missing: Any) -> None:
    table, others = _texts(missing)
    if isinstance(missing, str) or missing is None:
        model = MissingIndicator(missing_values=missing).fit(table[:, :3])
        agrees(model, table[:, :3], others[:, :3])
    mixed = np.stack(
        [_column("a", "b", missing), _column(1.0, 2.0, 3.5), _column("u", "v")], axis=1
    )
    imputer = SimpleImputer(missing_values=missing, strategy="most_frequent")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    side_by_side = make_column_transformer(
        (make_pipeline(imputer, encoder), [0, 2]), (StandardScaler(), [1])
    )
    agrees(side_by_side.fit(mixed), mixed, mixed[:1])
    in_turn = make_pipeline(
        make_column_transformer((imputer, [0, 2]), (StandardScaler(), [1])),
        make_column_transformer((OrdinalEncoder(), [0, 1]), remainder="passthrough"),
    )
    agrees(in_turn.fit(mixed), mixed, mixed[:1])


def test_texts_and_numbers_are_no_result() -> None:
    table = np.stack([_column("a", "b"), _column(1.0, 2.0)], axis=1)
    model = make_column_transformer(
        (SimpleImputer(strategy="most_frequent"), [0]), (StandardScaler(), [1])
    )
    with pytest.raises(InputError, match="numbers and texts together"):
        infuse.load(model.fit(table))


GAPS = np.where(RNG.random((60, 4)) < 0.3, np.nan, RNG.normal(size=(60, 4)))
ASKED = np.where(RNG.random((40, 4)) < 0.5, np.nan, RNG.normal(size=(40, 4)))
ASKED[0], ASKED[1:4] = np.nan, GAPS[3:6]


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_numbers_of_the_nearest_rows(weights: str, count: int) -> None:
    options: dict[str, Any] = {"n_neighbors": count, "weights": weights}
    one = np.where(np.arange(240).reshape(60, 4) % 4 > 0, GAPS, np.nan)
    one[0, 0] = 5.0
    empty = np.full((60, 1), np.nan)
    # Distances of equal rows are nothing here, and a rounding error in the library.
    for flag, table in product((False, True), (GAPS, one)):
        model = KNNImputer(add_indicator=flag, **options).fit(table)
        agrees(model, table, ASKED, ASKED[:1], np.zeros((2, 4)), tolerance=1e-7)
        model = KNNImputer(keep_empty_features=flag, **options).fit(np.c_[table, empty])
        agrees(model, np.c_[ASKED, np.ones(40)], tolerance=1e-7)
    coded = KNNImputer(missing_values=-1, **options).fit(np.nan_to_num(GAPS, nan=-1))
    agrees(coded, np.nan_to_num(ASKED, nan=-1), tolerance=1e-7)


def test_nearest_rows_are_found_natively() -> None:
    model = KNNImputer(n_neighbors=3, weights="distance").fit(GAPS)
    with infuse.compile(infuse.load(model)) as compiled:
        for x in (ASKED, ASKED[:1]):
            found = compiled.run({"x": x})["transformed"]
            np.testing.assert_allclose(found, model.transform(x), rtol=1e-7)
