"""Estimators that store what they were fitted to, a sparse matrix, beside scikit-learn."""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("sklearn", reason="fits the models")

from sklearn import ensemble, kernel_ridge, linear_model, neighbors, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
WORDS = np.array([f"w{i}" for i in range(40)])


def documents(count: int) -> Any:
    return np.array([" ".join(RNG.choice(WORDS, RNG.integers(4, 15))) for _ in range(count)])


TEXTS, ASKED = documents(80), np.array([*documents(20), "w1", "w2 w2 w3", "unknown"])
CLASSES = np.arange(len(TEXTS)) % 3
LINE = RNG.normal(size=len(TEXTS))
CLASSIFIERS: dict[str, Any] = {
    **{f"svc {k}": svm.SVC(kernel=k) for k in ("rbf", "linear", "poly", "sigmoid")},
    "svc ovo": svm.SVC(decision_function_shape="ovo", break_ties=False),
    "svc chances": svm.SVC(probability=True, random_state=0),
    "nu": svm.NuSVC(nu=0.2),
    "neighbours": neighbors.KNeighborsClassifier(3),
    "weighted neighbours": neighbors.KNeighborsClassifier(4, weights="distance"),
    "centre": neighbors.NearestCentroid(),
    "linear": svm.LinearSVC(),
    "votes": ensemble.VotingClassifier([("a", svm.SVC()), ("b", linear_model.RidgeClassifier())]),
}
REGRESSORS: dict[str, Any] = {
    "svr": svm.SVR(),
    "nu": svm.NuSVR(kernel="linear"),
    "neighbours": neighbors.KNeighborsRegressor(3, weights="distance"),
    "ridge": kernel_ridge.KernelRidge(kernel="rbf"),
    "ridge, polynomial": kernel_ridge.KernelRidge(kernel="poly", degree=2),
    "ridge, laplacian": kernel_ridge.KernelRidge(kernel="laplacian"),
}


def agrees(model: Any, asked: Any = ASKED) -> None:
    found = evaluate(infuse.load(model), {"x": asked})
    for output, method in (
        ("label", "predict"),
        ("variable", "predict"),
        ("probabilities", "predict_proba"),
        ("scores", "decision_function"),
    ):
        if output in found:
            expected = getattr(model, method)(asked)
            assert found[output].shape == expected.shape
            np.testing.assert_allclose(found[output], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(name: str, classes: int) -> None:
    # Whoever knows none of its words is as near to all: which of them are nearest is not said.
    asked = ASKED[:-1] if "neighbours" in name else ASKED
    agrees(make_pipeline(TfidfVectorizer(), CLASSIFIERS[name]).fit(TEXTS, CLASSES % classes), asked)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    agrees(make_pipeline(TfidfVectorizer(), REGRESSORS[name]).fit(TEXTS, LINE), ASKED[:-1])


def test_distances_that_are_no_squares() -> None:
    neighbours = neighbors.KNeighborsClassifier(3, metric="manhattan")
    model = make_pipeline(TfidfVectorizer(), neighbours).fit(TEXTS, CLASSES)
    # scikit-learn 1.9 finds other distances than between dense rows where indices are in no order.
    if not model[-1]._fit_X.has_sorted_indices:
        with pytest.raises(UnsupportedOperatorError, match="sparse samples in no order"):
            infuse.load(model)
    model[-1]._fit_X.sort_indices()
    agrees(model, ASKED[:-1])


def test_what_is_new() -> None:
    agrees(make_pipeline(TfidfVectorizer(), svm.OneClassSVM(nu=0.3)).fit(TEXTS))


@pytest.mark.parametrize(
    "model", [linear_model.SGDClassifier(penalty="l1", random_state=0), svm.LinearSVC()]
)
def test_weights_that_are_made_sparse(model: Any) -> None:
    fitted = make_pipeline(CountVectorizer(), model).fit(TEXTS, CLASSES)
    fitted[-1].sparsify()
    agrees(fitted)


def test_squares_of_texts_are_no_differences_of_each_from_each() -> None:
    model = make_pipeline(TfidfVectorizer(), svm.SVC()).fit(TEXTS, CLASSES)
    graph = infuse.load(model)
    differences = [node.outputs[0] for node in graph.nodes if node.op.name == "Sub"]
    assert differences
    assert {value.tensor.rank for value in differences} == {2}


def test_native_code_says_the_same() -> None:
    for machine in (svm.SVC(probability=True, random_state=0), neighbors.NearestCentroid()):
        model = make_pipeline(TfidfVectorizer(), machine).fit(TEXTS, CLASSES)
        found = infuse.compile(infuse.optimize(infuse.load(model))).run({"x": ASKED})
        assert found["label"].tolist() == model.predict(ASKED).tolist()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(ASKED), rtol=1e-6)
