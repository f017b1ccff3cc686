#!/usr/bin/env bash
# numpy 2.3.5: whether x to the power of one half is a power or a square root depends on how the
# exponent is spelled; the two differ for -infinity (infinity or NaN) and for -0 (0 or -0).
#
# IEEE 754 and C say pow(-inf, 0.5) = inf and pow(-0, 0.5) = +0. NumPy takes the square root where
# the exponent is a number, an array without dimensions or one of one element that is spread over x,
# and the power where the exponent has as many elements as x. So a reference of ONNX's Pow in NumPy
# answers differently for exponents of the shapes [1] and [2].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import math

import numpy as np

x = np.array([-np.inf, -0.0])
spellings = {
    "x ** 0.5": x**0.5,
    "np.power(x, 0.5)": np.power(x, 0.5),
    "np.power(x, np.float64(0.5))": np.power(x, np.float64(0.5)),
    "np.power(x, np.array(0.5))": np.power(x, np.array(0.5)),
    "np.power(x, np.array([0.5]))": np.power(x, np.array([0.5])),
    "np.power(x, np.array([0.5, 0.5]))": np.power(x, np.array([0.5, 0.5])),
}
print(f"numpy {np.__version__}; math.pow gives {math.pow(-math.inf, 0.5)}, {math.pow(-0.0, 0.5)}")
for name, made in spellings.items():
    print(f"{name}: {made[0]}, {made[1]}")
    is_root = np.isnan(made[0]) and np.signbit(made[1])
    is_power = made[0] == np.inf and not np.signbit(made[1])
    assert is_power if "0.5, 0.5" in name else is_root
PYTHON
