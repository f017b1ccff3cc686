"""Vectorizers of texts, alone and in pipelines, beside scikit-learn."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.rows import independent_rows

pytest.importorskip("sklearn", reason="fits the models")
pytest.importorskip("xgboost", reason="fits the models")

import xgboost
from sklearn import (
    compose,
    decomposition,
    ensemble,
    feature_selection,
    linear_model,
    model_selection,
    naive_bayes,
    preprocessing,
)
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.pipeline import make_pipeline, make_union

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = np.array(
    [
        *("The good day", "a bad, bad night", "good night", "the bad day", ""),
        *("Été İstanbul ß straße Σίσυφος ΟΔΟΣ", "x_1 12 3 a1 B2", "night\n\nday  good"),
        *("naïve café", "good good good day DAY", "猫 が いる 今日", "½ ² x² Ⅻ ٣٤"),
        "e\u0301te\u0301 t\u00e9 ﬁn",
    ],
    object,
)
CLASSES = np.arange(len(TEXTS)) % 3
OTHERS = ["unknown wörds only zzz", "day " * 300, "İ", "STRASSE straSSe", "a", " ", "\t\n"]
ASKED = np.array([*TEXTS, *OTHERS, "night_day night-day day.day", "good\x00day\u200bgood"], object)
COMMON: tuple[dict[str, Any], ...] = (
    {},
    {"binary": True, "lowercase": False},
    {"strip_accents": "unicode", "max_features": 9},
    {"strip_accents": "ascii", "min_df": 2},
)
WORDS: tuple[dict[str, Any], ...] = (
    {"stop_words": ["the", "good"]},
    {"stop_words": "english", "lowercase": False},
    *({"token_pattern": p} for p in (r"\w+", r"[a-z]{3,}", r"(?i)\b[a-z]+\b", r"[^\s]+|\S")),
)
WEIGHTS: tuple[dict[str, Any], ...] = (
    {"sublinear_tf": True, "norm": "l1"},
    {"norm": None, "use_idf": False},
    {"smooth_idf": False, "vocabulary": ["day", "never", "good"]},
    {"dtype": np.float32},
)
COUNTS: tuple[dict[str, Any], ...] = ({"dtype": np.int8}, {"vocabulary": {"day": 1, "good": 0}})


def same(found: Any, expected: Any) -> None:
    """Of the same type and shape, equal but for the order of sums."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6 if found.itemsize == 4 else 1e-12)


@pytest.mark.parametrize("kind", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_vectorizers(kind: Any, analyzer: str) -> None:
    own = WEIGHTS if kind is TfidfVectorizer else COUNTS
    options = (*COMMON, *own, *(WORDS if analyzer == "word" else ()))
    for option, lengths in product(options, [(1, 1), (1, 2), (2, 5)]):
        if "vocabulary" in option and lengths[0] > 1:
            continue
        model = kind(analyzer=analyzer, ngram_range=lengths, **option).fit(TEXTS)
        found = evaluate(infuse.load(model), {"x": ASKED})["transformed"]
        same(found, model.transform(ASKED).toarray())


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_many_texts(analyzer: str) -> None:
    rng = np.random.default_rng(0)
    words = " ".join(ASKED).split()
    texts = [" ".join(rng.choice(words, int(n))) for n in rng.integers(0, 90, 120)]
    for options, lengths in product([{}, *COMMON[2:], *WORDS[:2]], [(1, 1), (1, 3)]):
        if "stop_words" in options and analyzer != "word":
            continue
        common = {"analyzer": analyzer, "ngram_range": lengths, **options}
        model = TfidfVectorizer(**common).fit(TEXTS)
        found = evaluate(infuse.load(model), {"x": np.array(texts, object)})["transformed"]
        same(found, model.transform(texts).toarray())
        common = {k: v for k, v in common.items() if k not in ("max_features", "min_df")}
        hashing = HashingVectorizer(n_features=512, **common)
        found = evaluate(infuse.load(hashing), {"x": np.array(texts, object)})["transformed"]
        same(found, hashing.transform(texts).toarray())


def test_a_vocabulary_that_is_given_needs_no_texts() -> None:
    for vocabulary in ({"good", "day"}, ["good", "day"], {"day": 0, "good": 1}):
        model = CountVectorizer(vocabulary=vocabulary)
        found = evaluate(infuse.load(model), {"x": ASKED})["transformed"]
        same(found, model.transform(ASKED).toarray())


@pytest.mark.parametrize("options", [{}, {"sublinear_tf": True}, {"smooth_idf": False}])
def test_weights_of_counts(options: dict[str, Any]) -> None:
    counts = CountVectorizer().fit_transform(TEXTS).toarray() * 1.0
    counts[:, 2] = 0
    model = TfidfTransformer(**options).fit(counts)
    # Of numbers that the library refuses, which makes NaN or infinity of them, none is asked.
    negative = [] if options else [np.ones((1, counts.shape[1])), counts * -0.5]
    asked = np.concatenate([counts, *negative])
    expected = model.transform(asked).toarray()
    same(evaluate(infuse.load(model), {"x": asked})["transformed"], expected)


PIPELINES: dict[str, Any] = {
    "linear": make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression()),
    "names": make_pipeline(TfidfVectorizer(), linear_model.SGDClassifier(random_state=0)),
    "bayes": make_pipeline(CountVectorizer(), naive_bayes.MultinomialNB()),
    "weights": make_pipeline(CountVectorizer(), TfidfTransformer(), naive_bayes.ComplementNB()),
    "forest": make_pipeline(CountVectorizer(), ensemble.RandomForestClassifier(5, random_state=0)),
    "chosen": make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2)),
        feature_selection.SelectKBest(feature_selection.chi2, k=7),
        linear_model.RidgeClassifier(),
    ),
    "topics": make_pipeline(
        TfidfVectorizer(), decomposition.TruncatedSVD(4), linear_model.LogisticRegression()
    ),
    "union": make_pipeline(
        make_union(TfidfVectorizer(), CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))),
        preprocessing.MaxAbsScaler(),
        linear_model.LogisticRegression(),
    ),
    "missing": make_pipeline(
        TfidfVectorizer(), xgboost.XGBClassifier(n_estimators=5, n_jobs=1, min_child_weight=0)
    ),
    "search": model_selection.GridSearchCV(
        make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression()),
        {"logisticregression__C": [0.1, 1]},
        cv=2,
    ),
    "votes": ensemble.VotingClassifier(
        [
            ("one", make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression())),
            ("other", make_pipeline(CountVectorizer(), naive_bayes.MultinomialNB())),
        ],
        voting="soft",
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(name: str) -> None:
    labels = np.array(["ham", "spam", "eggs"])[CLASSES] if name == "names" else CLASSES
    model = PIPELINES[name].fit(TEXTS, labels)
    graph = infuse.load(model)
    assert graph.inputs[0].tensor.rank == 1
    for asked in (ASKED, ASKED[:1], ASKED[:0]):
        outputs = evaluate(graph, {"x": asked})
        if not len(asked):
            assert {len(one) for one in outputs.values()} == {0}
            continue
        assert outputs["label"].tolist() == model.predict(asked).tolist()
        for output, method in (("probabilities", "predict_proba"), ("scores", "decision_function")):
            if output in outputs:
                expected = getattr(model, method)(asked)
                np.testing.assert_allclose(outputs[output], expected, rtol=1e-6, atol=1e-9)


def test_columns_of_texts_beside_numbers() -> None:
    pandas = pytest.importorskip("pandas", reason="has columns of several types")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {"size": rng.normal(size=len(TEXTS)), "title": TEXTS, "body": TEXTS[::-1]}
    )
    columns = compose.make_column_transformer(
        (TfidfVectorizer(), "title"),
        (make_pipeline(CountVectorizer(), TfidfTransformer()), "body"),
        (preprocessing.StandardScaler(), ["size"]),
    )
    model = make_pipeline(columns, linear_model.LogisticRegression()).fit(table, CLASSES)
    feeds = {n: table[[n]].to_numpy(object if n != "size" else float) for n in table}
    outputs = evaluate(infuse.load(model), feeds)
    assert outputs["label"].tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(table), rtol=1e-9)


def test_texts_are_counted_by_the_interpreter_and_the_rest_is_native(tmp_path: Any) -> None:
    model = PIPELINES["linear"].fit(TEXTS, CLASSES)
    graph = infuse.load(model)
    assert independent_rows(graph).independent
    infuse.save(graph, tmp_path / "m.infuse")
    compiled = infuse.compile(infuse.optimize(infuse.load(tmp_path / "m.infuse")))
    assert [step.split()[0] for step in compiled.host_steps] == ["FindTerms"]
    outputs = compiled.run({"x": ASKED})
    assert outputs["label"].tolist() == model.predict(ASKED).tolist()
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(ASKED), rtol=1e-9)
    for bad in (None, np.nan, 3):
        with pytest.raises(InfuseError, match="element 1: it is not text"):
            compiled.run({"x": np.array(["day", bad], object)})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokenizer": str.split, "token_pattern": None}, "a tokenizer"),
        ({"preprocessor": str.upper}, "a preprocessor"),
        ({"analyzer": str.split}, "an analyzer that is a function"),
        ({"strip_accents": str.upper}, "strip_accents that is a function"),
        ({"encoding": "latin-1"}, "encoding='latin-1'"),
        ({"token_pattern": r"(?u)\b(\w\w+)\b"}, "groups"),
        ({"token_pattern": r"\w*[a-z]+\w*"}, "linear time"),
        ({"token_pattern": r"\w+\b"}, "linear time"),
        ({"token_pattern": r"\w+?y"}, "linear time"),
        ({"token_pattern": r"\w+(?=\s)"}, "linear time"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    for kind in (CountVectorizer, TfidfVectorizer):
        model = kind(**options).fit(["the good day", "a bad day"])
        with pytest.raises(UnsupportedOperatorError, match=said):
            infuse.load(model)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_features": 8, "ngram_range": (1, 2)},
        {"n_features": 8, "norm": None, "alternate_sign": False},
        {"n_features": 3, "binary": True, "norm": "l1"},
        {"n_features": 64, "analyzer": "char_wb", "ngram_range": (2, 5)},
        {"n_features": 16, "stop_words": "english", "lowercase": False, "dtype": np.float32},
    ],
)
def test_hashes_of_terms_are_those_of_scikit_learn(options: dict[str, Any]) -> None:
    hashing = HashingVectorizer(**options)
    model = make_pipeline(hashing, linear_model.SGDClassifier(random_state=0)).fit(TEXTS, CLASSES)
    found = infuse.compile(infuse.load(model)).run({"x": ASKED})
    is_exact = hashing.dtype == np.float64
    expected = model.decision_function(ASKED)
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-9 if is_exact else 1e-5)
    if hashing.n_features < 100:
        (alone,) = evaluate(infuse.load(hashing), {"x": ASKED}).values()
        expected = hashing.transform(ASKED).toarray()
        assert alone.dtype == expected.dtype
        np.testing.assert_allclose(alone, expected, rtol=1e-6)


def test_vectorizers_that_are_not_fitted_say_so() -> None:
    for model in (CountVectorizer(), TfidfVectorizer(), make_pipeline(TfidfVectorizer())):
        with pytest.raises(InfuseError, match=r"not fitted|fit the estimator"):
            infuse.load(model)


def test_a_written_file_is_said_to_be_for_infuse_alone(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    graph = infuse.load(CountVectorizer().fit(TEXTS))
    infuse.save(graph, tmp_path / "counts.infuse")
    assert not caplog.text
    infuse.save(graph, tmp_path / "counts.onnx")
    assert "only Infuse runs: CountTerms" in caplog.text
    (expected,) = evaluate(graph, {"x": ASKED}).values()
    (read,) = evaluate(infuse.load(tmp_path / "counts.onnx"), {"x": ASKED}).values()
    np.testing.assert_array_equal(read, expected)
