"""Encoders of categories and bins beside scikit-learn: None, NaN, what is not known, rare ones."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

preprocessing = pytest.importorskip("sklearn.preprocessing", reason="fits the models")

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)


def _column(*values: Any) -> Any:
    listed = np.empty(len(values), object)
    listed[:] = values
    return listed[RNG.integers(0, len(values), 60)]


def _rows(*rows: Any) -> Any:
    table = np.empty((len(rows), len(rows[0])), object)
    table[:] = rows
    return table


TEXTS = np.stack(
    [
        _column("a", "b", "c", None),
        _column("x", "y", np.nan),
        _column("q", "r", "None", "nan", None, np.nan),
        _column("only"),
    ],
    axis=1,
)
OTHER_TEXTS = _rows(
    ("zz", None, "None", ""),
    (np.nan, "nan", "nan", "only"),
    ("None", "x", "q", None),
    ("a", "y", None, "only"),
)
NUMBERS = np.stack([RNG.integers(0, 4, 60) * 1.0, RNG.choice([1.5, np.nan, -2.0], 60)], axis=1)
OTHER_NUMBERS = np.array([[9, np.nan], [0, 7.0], [np.nan, 1.5], [-0.0, -2], [5e-324, np.inf]])
TABLES = {"texts": (TEXTS, OTHER_TEXTS), "numbers": (NUMBERS, OTHER_NUMBERS[:4])}
RARE: tuple[dict[str, Any], ...] = ({}, {"min_frequency": 15}, {"max_categories": 2})
TWO, THREE = RNG.integers(0, 2, 60), RNG.integers(0, 3, 60)


def _one_hot() -> Iterator[Any]:
    yield preprocessing.OneHotEncoder()
    modes = ("error", "ignore", "infrequent_if_exist", "warn")
    for unknown, drop, rare in product(modes, (None, "first", "if_binary"), RARE):
        options = {"handle_unknown": unknown, "drop": drop, **rare}
        yield preprocessing.OneHotEncoder(sparse_output=False, **options)


def _ordinal() -> Iterator[Any]:
    known: dict[str, Any] = {"handle_unknown": "use_encoded_value"}
    unknown = ({}, {**known, "unknown_value": -1}, {**known, "unknown_value": np.nan})
    for options, missing, rare in product(unknown, (np.nan, -7), RARE):
        yield preprocessing.OrdinalEncoder(encoded_missing_value=missing, **options, **rare)


def _target() -> Iterator[Any]:
    for smooth in ("auto", 0.0, 3.0):
        yield preprocessing.TargetEncoder(smooth=smooth)


def agrees(model: Any, tables: Any) -> None:
    """Each table, and each of its first rows alone, as the library; an error where it has one."""
    graph = infuse.load(model)
    for table in tables:
        for x in (table, *(table[i : i + 1] for i in range(4))):
            try:
                expected = model.transform(x)
            except ValueError:
                with pytest.raises(InfuseError):
                    evaluate(graph, {"x": x})
                continue
            expected = expected.toarray() if hasattr(expected, "toarray") else expected
            found = evaluate(graph, {"x": x})["transformed"]
            np.testing.assert_array_equal(found, expected, f"{model}, {x[:5]}", strict=False)
            assert found.shape == expected.shape


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("models", [_one_hot, _ordinal])
def test_categories_that_are_missing_rare_or_not_known(models: Any, kind: str) -> None:
    for model in models():
        agrees(model.fit(TABLES[kind][0]), TABLES[kind])


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    "y", [TWO, THREE, RNG.normal(size=60), np.array(["p", "q", "r"])[THREE]], ids=str
)
def test_means_of_a_target(kind: str, y: Any) -> None:
    for model in _target():
        agrees(model.fit(TABLES[kind][0], y), TABLES[kind])


@pytest.mark.parametrize("encode", ["ordinal", "onehot", "onehot-dense"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile", "kmeans"])
def test_bins(encode: str, strategy: str) -> None:
    x = RNG.normal(size=(80, 3))
    x[:, 2] = 5
    for bins in (2, [5, 2, 2]):
        model = preprocessing.KBinsDiscretizer(
            bins, encode=encode, strategy=strategy, quantile_method="averaged_inverted_cdf"
        ).fit(x)
        edges = np.stack([np.resize(np.clip(e, -9, 9), 6) for e in model.bin_edges_], axis=1)
        odd = np.repeat([0.0, -0.0, 1e300, -1e300, 5e-324], 3).reshape(-1, 3)
        near = np.concatenate([edges, np.nextafter(edges, 9), np.nextafter(edges, -9), odd])
        agrees(model, (x, near))


def test_none_among_numbers_is_refused() -> None:
    x = _rows((1,), (2.5,), (None,))
    model = preprocessing.OneHotEncoder().fit(x)
    with pytest.raises(UnsupportedOperatorError, match="None among numbers"):
        infuse.load(model)


def test_compiled_and_written_encoders_agree(tmp_path: Path) -> None:
    model = preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(TEXTS)
    graph = infuse.load(model)
    expected = [model.transform(table) for table in (TEXTS, OTHER_TEXTS)]
    infuse.save(graph, tmp_path / "m.infuse")
    for source in (graph, infuse.load(tmp_path / "m.infuse")):
        compiled = infuse.compile(source)
        for table, wanted in zip((TEXTS, OTHER_TEXTS), expected, strict=True):
            np.testing.assert_array_equal(compiled.run({"x": table})["transformed"], wanted)


def test_onnx_runtime_reads_what_is_missing(tmp_path: Path) -> None:
    """It takes None and NaN of an array for texts; those of the table are no such texts."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = preprocessing.OrdinalEncoder(encoded_missing_value=-7).fit(TEXTS[:, :2])
    infuse.save(infuse.load(model), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    again = evaluate(infuse.load(tmp_path / "m.onnx"), {"x": TEXTS[:, :2]})["transformed"]
    for found in (again, session.run(None, {"x": TEXTS[:, :2]})[0]):
        np.testing.assert_array_equal(found, model.transform(TEXTS[:, :2]))


@pytest.mark.parametrize("where", ["interpreter", "native"])
def test_a_number_that_is_not_known_ends_the_run(where: str) -> None:
    model = preprocessing.OrdinalEncoder().fit([[1.0], [2.0], [4.0]])
    graph = infuse.load(model)
    run = (lambda x: evaluate(graph, x)) if where == "interpreter" else infuse.compile(graph).run
    assert run({"x": np.array([[4.0], [1.0]])})["transformed"].tolist() == [[2.0], [0.0]]
    for number in (3.0, np.nan, np.inf):
        with pytest.raises(InfuseError):
            run({"x": np.array([[4.0], [number]])})
