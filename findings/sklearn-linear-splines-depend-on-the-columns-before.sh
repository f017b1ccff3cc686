#!/usr/bin/env bash
# scikit-learn 1.9.1: SplineTransformer(degree=1, extrapolation="linear") gives two equal columns
# different features left of the knots.
#
# The transform visits one column after the other and changes its own `degree` on the way, for the
# sake of the linear ends; the change stays for the columns that come later, and theirs begin one
# knot further in. Between the knots all is well, and with degree 2 and more, too. So what a column
# becomes depends on whether another stands before it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import sklearn
from sklearn.preprocessing import SplineTransformer

column = np.linspace(0, 1, 11)[:, None]
outside, inside = np.array([[-1.0]]), np.array([[0.3]])
print(f"scikit-learn {sklearn.__version__}")
for degree in (1, 2, 3):
    made = SplineTransformer(n_knots=5, degree=degree, extrapolation="linear")
    made.fit(np.hstack([column, column]))
    first, second = np.split(made.transform(np.hstack([outside, outside]))[0], 2)
    print(f"degree {degree}, at -1: {first.round(3).tolist()} and {second.round(3).tolist()}")
    assert np.allclose(first, second) == (degree > 1)
    first, second = np.split(made.transform(np.hstack([inside, inside]))[0], 2)
    assert np.allclose(first, second)
PYTHON
