#!/usr/bin/env bash
# CatBoost 1.2.10: a model with the statistic BinarizedTargetMeanValue of several target borders
# predicts other numbers after save_model(format="json") and load_model: up to 6.0 off here, where
# targets go from 0 to 6. Nothing is said.
#
# The sums of targets in the file are right (3.25 for example); the reader takes the whole part of
# each. Models in .cbm, and statistics of one border, whose sums are whole, come back as they were.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet catboost==1.2.10 numpy==2.4.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import json

import catboost
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(0, 30, (400, 2)).astype(str).astype(object)
y = x[:, 0].astype(float) % 7 + rng.normal(size=400)
print(f"CatBoost {catboost.__version__}, largest change of a prediction after a file:")
for borders in (1, 5):
    model = catboost.CatBoostRegressor(
        iterations=30,
        cat_features=[0, 1],
        one_hot_max_size=1,
        simple_ctr=[f"BinarizedTargetMeanValue:TargetBorderCount={borders}"],
        combinations_ctr=["Counter"],
        allow_writing_files=False,
        thread_count=1,
        random_seed=0,
        verbose=0,
    ).fit(x, y)
    before, change = model.predict(x), {}
    for kind in ("cbm", "json"):
        model.save_model(f"m.{kind}", format=kind)
        again = catboost.CatBoostRegressor().load_model(f"m.{kind}", format=kind)
        change[kind] = float(np.abs(again.predict(x) - before).max())
    tables = json.load(open("m.json"))["ctr_data"].values()
    broken = sum(v != int(v) for t in tables for v in map(float, t["hash_map"]))
    print(f"{borders} borders: cbm {change['cbm']:.3g}, json {change['json']:.3g};", end=" ")
    print(f"{broken} numbers of the file are not whole")
    assert change["cbm"] == 0
    assert (change["json"] > 0.05 and broken > 0) if borders > 1 else change["json"] < 1e-12
PYTHON
