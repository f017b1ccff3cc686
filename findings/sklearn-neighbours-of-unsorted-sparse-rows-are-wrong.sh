#!/usr/bin/env bash
# scikit-learn 1.9.1: nearest neighbours by metric="manhattan" on sparse rows whose indices are not
# sorted are wrong: other neighbours, at distances that are none. Nothing is said.
#
# SciPy allows rows of a CSR matrix in any order, and fit_transform of CountVectorizer and
# TfidfVectorizer gives such rows. The kernel of brute force walks two rows side by side, which
# needs them sorted, and nobody sorts. Dense rows, sort_indices() first, and
# manhattan_distances of the same matrices are right; so is metric="euclidean".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.0 scipy==1.17.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.neighbors import NearestNeighbors

rng = np.random.default_rng(0)
words = np.array([f"w{i:02}" for i in range(60)])
texts = [" ".join(rng.choice(words, 12)) for _ in range(100)]
rows = TfidfVectorizer().fit_transform(texts)
print(f"scikit-learn {sklearn.__version__}; indices sorted: {bool(rows.has_sorted_indices)}")
right = np.sort(manhattan_distances(rows.toarray()), axis=1)[:, :3]
dense = NearestNeighbors(n_neighbors=3, metric="manhattan").fit(rows.toarray())
assert np.allclose(dense.kneighbors(rows.toarray())[0], right)
found, places = NearestNeighbors(n_neighbors=3, metric="manhattan").fit(rows).kneighbors(rows)
true = manhattan_distances(rows.toarray())[np.arange(100)[:, None], places]
print("text 0: said", found[0].round(2), "are", true[0].round(2), "nearest are", right[0].round(2))
wrong = int((~np.isclose(true, right)).any(axis=1).sum())
print(f"{wrong} of 100 texts have neighbours that are not the nearest")
assert wrong > 20 and not rows.has_sorted_indices
rows.sort_indices()
found, _ = NearestNeighbors(n_neighbors=3, metric="manhattan").fit(rows).kneighbors(rows)
assert np.allclose(found, right)
PYTHON
