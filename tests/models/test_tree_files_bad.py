"""Damaged models of XGBoost, LightGBM and CatBoost: each is refused with an error that says why."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.trees import ubjson

FOLDER = Path(__file__).parent / "data" / "trees"
XGBOOST = json.loads((FOLDER / "xgboost-logistic.json").read_bytes())
CATBOOST = json.loads((FOLDER / "catboost-rmse.json").read_bytes())
GROWN = json.loads((FOLDER / "catboost-depthwise-three.json").read_bytes())
LIGHTGBM = (FOLDER / "lightgbm-categories.txt").read_text()
Change = Callable[[Any], Any]


def xgboost_tree(document: Any) -> Any:
    return document["learner"]["gradient_booster"]["model"]["trees"][0]


def put(name: str, place: int, number: Any) -> Change:
    def change(document: Any) -> None:
        xgboost_tree(document)[name][place] = number

    return change


def cut(name: str) -> Change:
    return lambda document: xgboost_tree(document)[name].pop()


def parameter(name: str, content: Any) -> Change:
    def change(document: Any) -> None:
        document["learner"]["learner_model_param"][name] = content

    return change


def objective(name: str) -> Change:
    def change(document: Any) -> None:
        document["learner"]["objective"]["name"] = name

    return change


XGBOOST_CASES: dict[str, tuple[Change, str]] = {
    "a child that is not there": (put("left_children", 0, 999), "leads to node 999"),
    "a cycle": (put("left_children", 1, 0), "leads to node 0"),
    "two ways to a node": (put("left_children", 0, 2), "two branches lead to one node"),
    "a short list": (cut("split_conditions"), "lists of nodes"),
    "a feature that is not there": (put("split_indices", 0, 77), "feature 77 of 6"),
    "a threshold that is NaN": (put("split_conditions", 1, float("nan")), "NaN|finite"),
    "text among numbers": (put("split_conditions", 0, "x"), "list of numbers"),
    "a fraction for a node": (put("left_children", 0, 1.5), "fraction"),
    "an objective": (objective("reg:surprise"), "reg:surprise"),
    "features beyond reason": (parameter("num_feature", "99999999999"), "num_feature"),
    "no features": (parameter("num_feature", "0"), "num_feature"),
    "a base score without a margin": (parameter("base_score", "2"), "no margin"),
    "base scores for others": (parameter("base_score", "[0.1,0.2]"), "2 numbers for 1 groups"),
    "no trees": (lambda d: d["learner"]["gradient_booster"]["model"].pop("trees"), "'trees'"),
    "a group that is not there": (
        lambda d: d["learner"]["gradient_booster"]["model"]["tree_info"].__setitem__(0, 5),
        "tree_info",
    ),
    "another booster": (
        lambda d: d["learner"]["gradient_booster"].__setitem__("name", "gbforest"),
        "gbforest",
    ),
    "no learner": (lambda d: d.__setitem__("learner", 5), "no learner"),
}


@pytest.mark.parametrize("case", XGBOOST_CASES)
def test_xgboost_is_refused(case: str) -> None:
    change, words = XGBOOST_CASES[case]
    document = copy.deepcopy(XGBOOST)
    change(document)
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=words):
        infuse.load(json.dumps(document).encode())


LIGHTGBM_CASES: dict[str, tuple[str, str, str]] = {
    "an objective": ("objective=binary", "objective=surprise", "surprise"),
    "a child that is not there": ("left_child=", "left_child=77 ", "left_child|there"),
    "too many leaves": ("num_leaves=6", "num_leaves=600000", "600000 leaves"),
    "a threshold that is NaN": ("threshold=", "threshold=nan ", "threshold"),
    "no end": ("end of trees", "end", "cut off"),
    "linear leaves": ("is_linear=0", "is_linear=1", "leaf_const"),
    "text among numbers": ("leaf_value=", "leaf_value=x", "list of numbers"),
    "no features": ("max_feature_idx=5", "max_feature_idx=-1", "max_feature_idx"),
    "no leaves": ("leaf_value=", "leaf_values=", "leaf_value"),
    "trees that do not match": (
        "num_tree_per_iteration=1",
        "num_tree_per_iteration=3",
        "not a multiple of 3",
    ),
    "categories that are not there": ("cat_boundaries=0", "cat_boundaries=900", "categories"),
}


@pytest.mark.parametrize("case", LIGHTGBM_CASES)
def test_lightgbm_is_refused(case: str) -> None:
    old, new, words = LIGHTGBM_CASES[case]
    assert old in LIGHTGBM
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=words):
        infuse.load(LIGHTGBM.replace(old, new).encode())


CATBOOST_CASES: dict[str, tuple[Change, str]] = {
    "text features": (
        lambda d: d["features_info"].__setitem__("text_features", [{}]),
        "text features",
    ),
    "categories without a place": (
        lambda d: d["features_info"].__setitem__("categorical_features", [{}]),
        "feature",
    ),
    "a place that is taken": (
        lambda d: d["features_info"].__setitem__(
            "categorical_features", [{"feature_index": 0, "flat_feature_index": 0}]
        ),
        "places of their own",
    ),
    "a statistic that is not there": (
        lambda d: d["oblivious_trees"][0]["splits"][0].__setitem__("split_type", "OnlineCtr"),
        "none of the statistics",
    ),
    "a short list of leaves": (lambda d: d["oblivious_trees"][0]["leaf_values"].pop(), "leaf"),
    "a feature that is not there": (
        lambda d: d["oblivious_trees"][0]["splits"][0].__setitem__("float_feature_index", 99),
        "99",
    ),
    "a split of another kind": (
        lambda d: d["oblivious_trees"][0]["splits"][0].__setitem__("split_type", "Surprise"),
        "Surprise",
    ),
    "a tree too deep": (
        lambda d: d["oblivious_trees"][0].__setitem__(
            "splits", d["oblivious_trees"][0]["splits"] * 30
        ),
        "levels",
    ),
    "a border that is NaN": (
        lambda d: d["oblivious_trees"][0]["splits"][0].__setitem__("border", float("nan")),
        "NaN",
    ),
    "another loss": (
        lambda d: d["model_info"]["params"]["loss_function"].__setitem__("type", "Surprise"),
        "Surprise",
    ),
}


@pytest.mark.parametrize("case", CATBOOST_CASES)
def test_catboost_is_refused(case: str) -> None:
    change, words = CATBOOST_CASES[case]
    document = copy.deepcopy(CATBOOST)
    change(document)
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=words):
        infuse.load(json.dumps(document).encode())


GROWN_CASES: dict[str, tuple[Change, str]] = {
    "a branch without an end": (lambda t: t.pop("left"), "left"),
    "a leaf without a value": (lambda t: t.pop("split"), "value"),
    "a feature that is not there": (
        lambda t: t["split"].__setitem__("float_feature_index", 99),
        "99",
    ),
    "a leaf of other targets": (lambda t: t.__setitem__("right", {"value": [1.0]}), "1 values"),
    "a value that is not finite": (
        lambda t: t.__setitem__("right", {"value": [1.0, float("inf"), 0.0]}),
        "finite",
    ),
    "a border that is NaN": (lambda t: t["split"].__setitem__("border", float("nan")), "NaN"),
    "another split": (lambda t: t["split"].__setitem__("split_type", "Surprise"), "Surprise"),
}


@pytest.mark.parametrize("case", GROWN_CASES)
def test_grown_trees_are_refused(case: str) -> None:
    change, words = GROWN_CASES[case]
    document = copy.deepcopy(GROWN)
    change(document["trees"][1])
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=words):
        infuse.load(json.dumps(document).encode())


@pytest.mark.parametrize(
    "name",
    ["xgboost-logistic.json", "xgboost-logistic.ubj", "lightgbm-binary.txt", "catboost-rmse.json"],
)
def test_cut_off_files_are_refused(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    ends = content.rindex(b"end of trees") if name.endswith("txt") else len(content)
    for size in np.linspace(200, ends - 1, 60).astype(int):
        with pytest.raises(InfuseError):
            infuse.load(content[:size])


def test_random_damage_gives_errors_or_models() -> None:
    rng = np.random.default_rng(0)
    for name in ("xgboost-logistic.ubj", "xgboost-softprob.json", "lightgbm-zero.txt"):
        content = (FOLDER / name).read_bytes()
        for _ in range(60):
            damaged = bytearray(content)
            for place in rng.integers(60, len(content), 3):
                damaged[place] = rng.integers(0, 256)
            try:
                infuse.load(bytes(damaged))
            except InfuseError:
                continue


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{L\x7f\xff\xff\xff\xff\xff\xff\xff", "bytes are to follow"),
        (b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "elements are to follow"),
        (b"[$Z#L\x00\x00\x00\x7f\xff\xff\xff\xff", "elements are to follow"),
        (b"[#L\xff\xff\xff\xff\xff\xff\xff\xff", "elements are to follow"),
        (b"[$d", "without a count"),
        (b"[" * 5000, "levels"),
        (b"{i\x01ai\x01i\x01ai\x01}", "two members"),
        (b"{i\x01\xffi\x01}", "UTF-8"),
        (b"Q", "no meaning"),
        (b"i\x01i", "follow the end"),
        (b"{Zx", "no length"),
        (b"[i", "bytes are to follow"),
    ],
)
def test_ubjson_that_lies_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(ModelFileError, match=words):
        ubjson.loads(content)


def test_ubjson_values() -> None:
    content = (
        b"{i\x01a[$l#i\x02\x00\x00\x00\x01\xff\xff\xff\xffU\x01bSi\x02hiI\x00\x01c?\x80\x00\x00"
    )
    content = content[: content.index(b"I\x00\x01c")] + b"i\x01cd\x3f\x80\x00\x00i\x01dTi\x01eZ}"
    value = ubjson.loads(content)
    assert value["a"].tolist() == [1, -1]
    assert (value["b"], value["c"], value["d"], value["e"]) == ("hi", 1.0, True, None)
