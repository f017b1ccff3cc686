#!/usr/bin/env bash
# skl2onnx 1.20.0: TfidfVectorizer(sublinear_tf=True) is exported as a model that gives other
# numbers, without a warning.
#
# With the default (sublinear_tf=False) the file agrees with scikit-learn 1.9.1 to the last bits of
# float32. With logarithms of the counts, entries of words that stand more than once in a text are
# off in the second digit. lowercase=False keeps the case of the two out of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 \
  onnxruntime==1.32.0 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn.feature_extraction.text import TfidfVectorizer

texts = ["a cat sat on a mat cat cat", "the dog ate the cat", "dog dog dog dog bird"]
print(f"skl2onnx {skl2onnx.__version__}, largest difference from scikit-learn:")
for sublinear in (False, True):
    fitted = TfidfVectorizer(sublinear_tf=sublinear, lowercase=False).fit(texts)
    ends = [("x", StringTensorType([None]))]
    model = skl2onnx.convert_sklearn(fitted, initial_types=ends, target_opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {"x": np.array(texts)})[0]
    most = float(np.abs(found - fitted.transform(texts).toarray()).max())
    print(f"sublinear_tf={sublinear}: {most:.1e}")
    assert most > 0.01 if sublinear else most < 1e-6
PYTHON
