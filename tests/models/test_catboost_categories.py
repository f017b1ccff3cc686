"""CatBoost's categories beside what it predicts."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.rows import independent_rows

FOLDER = Path(__file__).parent / "data" / "trees"
EXPECTED = np.load(FOLDER / "categories.npz")
FEEDS = {n: EXPECTED[n].astype(object if n in ("x1", "x2") else float) for n in EXPECTED.files[:4]}
NAMES = ("one-hot", "statistics", "buckets")


@pytest.mark.parametrize("name", NAMES)
def test_files(name: str) -> None:
    graph = infuse.load(FOLDER / f"categories-{name}.json")
    assert [value.name for value in graph.inputs] == ["x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(evaluate(graph, FEEDS)["variable"], EXPECTED[name], rtol=1e-13)
    assert independent_rows(graph).independent


def test_texts_are_hashed_by_the_interpreter_and_the_rest_is_native() -> None:
    for name in NAMES:
        graph = infuse.load(FOLDER / f"categories-{name}.json")
        model = infuse.compile(infuse.optimize(graph))
        assert {step.split()[0] for step in model.host_steps} == {"HashText"}
        (found,) = model.run(FEEDS).values()
        np.testing.assert_allclose(found, EXPECTED[name], rtol=1e-13)
        (alone,) = model.run({n: x[-1:] for n, x in FEEDS.items()}).values()
        np.testing.assert_allclose(alone, EXPECTED[name][-1:], rtol=1e-13)


def changed(name: str, **changes: Any) -> bytes:
    document = json.loads((FOLDER / f"categories-{name}.json").read_text())
    for ctr in document["features_info"]["ctrs"]:
        ctr.update(changes.get("ctr", {}))
    for tree in document["oblivious_trees"]:
        for split in tree["splits"]:
            if split["split_type"] == "OnlineCtr":
                split.update(changes.get("split", {}))
    for table in document["ctr_data"].values():
        table.update(changes.get("table", {}))
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ctr": {"ctr_type": "Surprise"}}, "type 'Surprise'"),
        ({"ctr": {"identifier": "{}", "elements": []}}, "there is no table"),
        ({"ctr": {"target_border_idx": 7}}, "border 7 of rows of 2 classes"),
        ({"ctr": {"elements": [{"combination_element": "odd"}]}}, "combinations with 'odd'"),
        ({"split": {"border": 0.25}}, "another border than its statistic"),
        ({"split": {"split_index": 10**6}}, "none of the statistics"),
        ({"table": {"hash_stride": 4}}, "in rows of 4"),
        ({"table": {"hash_map": []}}, "a table of 0 numbers"),
        ({"table": {"hash_map": ["1", 0.5, 2], "hash_stride": 3}}, "no whole numbers"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=said):
        infuse.load(changed("statistics", **changes))


ROWS = np.random.default_rng(3)


def table(count: int) -> Any:
    x = np.empty((count, 5), object)
    x[:, 0], x[:, 3] = ROWS.normal(size=(2, count))
    x[:, 1] = ROWS.integers(-3, 40, count)
    x[:, 2] = ROWS.choice(["red", "green", "blue", "ünï", ""], count)
    x[:, 4] = ROWS.choice(list("abcdefghijklmnopqrstuvwxyz"), count)
    return x


X, ASKED = table(300), table(40)
ASKED[0, 1], ASKED[1, 2], ASKED[2, 4], ASKED[3, 0], ASKED[4, 3] = 999, "new", "zz", np.nan, np.inf
LINE = X[:, 0] + (X[:, 1] % 3) + (X[:, 2] == "red") * (X[:, 1] > 10) + (X[:, 4] < "k")
LINE = LINE.astype(float) + ROWS.normal(size=len(X)) * 0.3
CLASSES = {2: (LINE > 1).astype(int), 3: np.array(["u", "v", "w"])[np.digitize(LINE, [0.5, 2])]}
MEANS = "BinarizedTargetMeanValue"
LIVE: dict[str, tuple[int, dict[str, Any]]] = {
    "one hot": (0, {"one_hot_max_size": 255}),
    "two classes": (2, {}),
    "three classes": (3, {}),
    "one against all": (3, {"loss_function": "MultiClassOneVsAll"}),
    "buckets": (3, {"simple_ctr": ["Buckets"]}),
    "means": (0, {"simple_ctr": [f"{MEANS}:TargetBorderCount=5"], "combinations_ctr": [MEANS]}),
    "borders": (0, {"simple_ctr": ["Borders:TargetBorderCount=5", "Counter"]}),
    "both": (2, {"one_hot_max_size": 6}),
    "combinations": (0, {"one_hot_max_size": 6, "max_ctr_complexity": 4, "nan_mode": "Max"}),
    "full counts": (0, {"counter_calc_method": "Full", "max_ctr_complexity": 3}),
    "depthwise": (2, {"grow_policy": "Depthwise"}),
    "lossguide": (0, {"grow_policy": "Lossguide", "one_hot_max_size": 6}),
}


def feeds(x: Any) -> dict[str, Any]:
    columns = {f"x{i}": x[:, [i]] for i in range(5)}
    return {n: v.astype(str if n in ("x1", "x2", "x4") else float) for n, v in columns.items()}


def library() -> Any:
    pytest.importorskip("catboost", reason="100 MB, which make test does not install")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import catboost
    return catboost


OPTIONS: dict[str, Any] = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}


@pytest.mark.parametrize("name", LIVE)
def test_live_models(name: str) -> None:
    catboost = library()
    classes, more = LIVE[name]
    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    model = kind(iterations=20, depth=5, cat_features=[1, 2, 4], **OPTIONS, **more)
    model.fit(X, CLASSES.get(classes, LINE))
    given = {n: v.astype(object) if v.dtype.kind == "U" else v for n, v in feeds(ASKED).items()}
    found = evaluate(infuse.load(model), given)
    for output, result in found.items():
        expected = (model.predict_proba if output == "probabilities" else model.predict)(ASKED)
        if output == "label":
            assert result.tolist() == np.ravel(expected).tolist()
        else:
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_a_table_of_categories_alone() -> None:
    catboost = library()
    texts = X[:, [1, 2, 4]].astype(str).astype(object)
    model = catboost.CatBoostRegressor(iterations=5, cat_features=[0, 1, 2], **OPTIONS)
    model.fit(texts, LINE)
    (found,) = evaluate(infuse.load(model), {"x": texts}).values()
    np.testing.assert_allclose(found, model.predict(texts), rtol=0, atol=1e-12)


def test_a_file_of_which_catboost_reads_whole_parts_alone(tmp_path: Path) -> None:
    catboost = library()
    means = {"simple_ctr": [f"{MEANS}:TargetBorderCount=5"]}
    model = catboost.CatBoostRegressor(iterations=9, cat_features=[1, 2, 4], **means, **OPTIONS)
    model.fit(X, LINE).save_model(str(tmp_path / "m.json"), format="json")
    with pytest.raises(UnsupportedOperatorError, match="reads but the whole part"):
        infuse.load(tmp_path / "m.json")
    again = catboost.CatBoostRegressor()
    again.load_model(str(tmp_path / "m.json"), format="json")
    assert np.abs(again.predict(ASKED) - model.predict(ASKED)).max() > 0.1
