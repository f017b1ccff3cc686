"""Models of scikit-learn, exported by skl2onnx: native code beside ONNX Runtime and beside the
model itself.
"""
# ruff: noqa: E402  (what may be missing is looked for first)

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ir.equality import equal
from infuse.onnxruntime import InferenceSession

skl2onnx = pytest.importorskip("skl2onnx", reason="exports the models")

import onnx
import onnxruntime
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, OneClassSVM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 4)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(np.int64)
THREE = TWO + (X[:, 2] > 0.3)
NAMES = np.array(["red", "green", "blue"])[THREE]
GAPS = np.where(X > 1.5, np.nan, X).astype(np.float32)
COLOURS = np.array([["red"], ["green"], ["blue"], ["green"]] * 10)
ODD = np.arange(40) % 2

MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "forest, two": (
        lambda: make_pipeline(StandardScaler(), RandomForestClassifier(15, max_depth=4)),
        X,
        TWO,
    ),
    "forest, three": (lambda: RandomForestClassifier(15, max_depth=6), X, THREE),
    "boosted, two": (lambda: GradientBoostingClassifier(n_estimators=8), X, TWO),
    "boosted, three": (lambda: GradientBoostingClassifier(n_estimators=8), X, THREE),
    "forest, numbers": (lambda: RandomForestRegressor(15), X, X[:, 0] * X[:, 1]),
    "logistic, two": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), X, TWO),
    "logistic, three": (lambda: make_pipeline(Normalizer(), LogisticRegression()), X, THREE),
    "linear": (lambda: LinearRegression(), X, X @ np.float32([[1, 2], [0, 1], [3, 0], [1, 1]])),
    "machine, two": (lambda: make_pipeline(StandardScaler(), SVC()), X, TWO),
    "machine, three": (lambda: SVC(kernel="sigmoid", decision_function_shape="ovo"), X, THREE),
    "machine, numbers": (lambda: SVR(), X, X[:, 0]),
    "machine, one": (lambda: OneClassSVM(), X, TWO),
    "gaps": (
        lambda: make_pipeline(SimpleImputer(), Binarizer(threshold=0.2), LogisticRegression()),
        GAPS,
        TWO,
    ),
    "codes": (
        lambda: make_pipeline(OneHotEncoder(sparse_output=False), LogisticRegression()),
        (X[:, :2] > 0) * 3,
        TWO,
    ),
}
QUICK = ("forest, three", "boosted, two", "logistic, three", "machine, three", "gaps", "codes")
"""What is compiled in the short run of the tests."""
HOSTED: dict[str, tuple[Callable[[], Any], Any, Any, set[str]]] = {
    "names": (lambda: RandomForestClassifier(5, max_depth=3), X, NAMES, {"Gather"}),
    "names of a machine": (lambda: SVC(), X, NAMES, {"Gather"}),
    "coloured": (
        lambda: make_pipeline(OneHotEncoder(sparse_output=False), LogisticRegression()),
        COLOURS,
        ODD,
        {"OneHotEncoder"},
    ),
    "ordered": (
        lambda: make_pipeline(OrdinalEncoder(), LogisticRegression()),
        COLOURS,
        ODD,
        {"LabelEncoder"},
    ),
}


def exported(model: Any, x: Any, zipmap: bool = False) -> onnx.ModelProto:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    options = {id(last): {"zipmap": zipmap}} if hasattr(last, "classes_") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skl2onnx.to_onnx(model, x[:1], options=options, target_opset=18)


def outputs(data: bytes, x: Any) -> tuple[InferenceSession, list[Any], list[Any]]:
    """A session, its results and those of ONNX Runtime."""
    session = InferenceSession(data)
    feeds = {session.get_inputs()[0].name: x}
    return session, session.run(None, feeds), onnxruntime.InferenceSession(data).run(None, feeds)


def compare(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)
        else:
            assert (one == other).mean() > 0.99


def trained(make: Callable[[], Any], x: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(x, y)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in MODELS]
)
def test_numbers_run_natively_and_agree(name: str) -> None:
    make, x, y = MODELS[name]
    model = trained(make, x, y)
    session, found, expected = outputs(exported(model, x).SerializeToString(), x)
    assert not session.host_steps
    compare(found, expected)
    assert (
        np.asarray(found[0]).reshape(-1) - np.asarray(model.predict(x)).reshape(-1) < 1e-3
    ).mean() > 0.99


@pytest.mark.parametrize("name", HOSTED)
def test_only_strings_are_left_to_the_host(name: str) -> None:
    make, x, y, hosted = HOSTED[name]
    session, found, expected = outputs(exported(trained(make, x, y), x).SerializeToString(), x)
    assert {step.split()[0] for step in session.host_steps} == hosted
    compare(found, expected)


def test_dictionaries_of_probabilities() -> None:
    model = trained(lambda: LogisticRegression(), X, NAMES)
    session, (labels, maps), (named, wanted) = outputs(
        exported(model, X, zipmap=True).SerializeToString(), X
    )
    assert {step.split()[0] for step in session.host_steps} == {"Gather", "ZipMap"}
    assert labels.tolist() == named.tolist()
    for one, other in zip(maps, wanted, strict=True):
        assert list(one) == list(other)
        np.testing.assert_allclose(list(one.values()), list(other.values()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["forest, three", "forest, numbers", "machine, two", "gaps", "coloured"]
)
def test_models_are_written_and_read_again(name: str, tmp_path: Path) -> None:
    make, x, y = (MODELS | HOSTED)[name][:3]  # type: ignore[operator]
    data = exported(trained(make, x, y), x).SerializeToString()
    graph = infuse.load(data)
    infuse.save(graph, tmp_path / "m.infuse")
    infuse.save(graph, tmp_path / "m.onnx")
    assert equal(graph, infuse.load(tmp_path / "m.infuse")) is None
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    feeds = {graph.inputs[0].name: x}
    again = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, feeds)
    compare(again, onnxruntime.InferenceSession(data).run(None, feeds))


@pytest.mark.parametrize(
    "vectorizer",
    [
        TfidfVectorizer(),
        TfidfVectorizer(ngram_range=(1, 2), norm="l1"),
        CountVectorizer(stop_words=["the"], min_df=1),
        CountVectorizer(binary=True, lowercase=False),
    ],
    ids=str,
)
def test_pipelines_of_texts(vectorizer: Any) -> None:
    pytest.importorskip("re2", reason="matches the patterns of tokens")
    texts = np.array(["The good day", "a bad, bad night", "good night", "the bad day", ""])
    model = make_pipeline(vectorizer, LogisticRegression()).fit(texts, [1, 0, 1, 0, 0])
    from skl2onnx.common.data_types import StringTensorType

    kinds = [("x", StringTensorType([None]))]
    options = {id(model.steps[-1][1]): {"zipmap": False}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto = skl2onnx.convert_sklearn(
            model, initial_types=kinds, options=options, target_opset=18
        )
    asked = np.array([*texts, "night and DAY", "bad good_day x", "12 ab"], object)
    # ONNX Runtime lowers texts only where the system has the locale en_US.
    labels, chances = InferenceSession(proto.SerializeToString()).run(None, {"x": asked})
    assert labels.tolist() == model.predict(asked).tolist()
    np.testing.assert_allclose(chances, model.predict_proba(asked), rtol=1e-4, atol=1e-5)
