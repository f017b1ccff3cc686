"""What five newcomers do first, in fresh environments, by README and docs alone. The engineer from
Triton is in tests/serving/test_beside_tritonclient.py.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli_tools import small_network
from tests.fresh import ROOT, Fresh
from tests.pages.blocks import blocks

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    return Fresh(tmp_path)


def test_a_pytorch_engineer_compiles_a_module(fresh: Fresh) -> None:
    fresh.install(str(ROOT), f"torch=={version('torch').partition('+')[0]}")
    (fresh.folder / "job.py").write_text(
        """
import infuse, numpy as np, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(5)
        )

    def forward(self, x):
        return self.layers(x)

x = torch.randn(2, 3, 8, 8)
net = Net().eval()
expected = net(x).detach().numpy()
try:
    infuse.compile(net)
except infuse.InfuseError as error:
    assert "from_torch" in str(error), error
graph = infuse.from_torch(net, x, output_names=["scores"])
model = infuse.compile(infuse.optimize(graph))
scores = model.run(x)["scores"]
np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
print("right")
"""
    )
    assert fresh.python("job.py").stdout.strip().endswith("right")


def test_a_backend_engineer_changes_one_line(fresh: Fresh) -> None:
    fresh.install(str(ROOT))
    small_network(fresh.folder / "model.onnx", size=224)
    first = blocks("docs/migration/onnxruntime.md", "python")[0].text
    (fresh.folder / "job.py").write_text(f"{first}\nprint(outputs[0].shape, session.tier)\n")
    assert "(1," in fresh.python("job.py").stdout


def test_a_data_scientist_runs_a_pipeline_of_a_table(fresh: Fresh) -> None:
    fresh.install(str(ROOT), "pandas", f"scikit-learn=={version('scikit-learn')}")
    (fresh.folder / "job.py").write_text(
        """
import infuse, numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

table = pd.DataFrame({
    "age": [30, 41, None, 25, 52, 37] * 5,
    "city": ["Oslo", "Rome", "Rome", "Lima", "Oslo", "Lima"] * 5,
    "note": ["late again", "on time", "late", "on time today", "never late", "fine"] * 5,
})
labels = np.array([1, 0, 1, 0, 1, 0] * 5)
columns = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
    (OneHotEncoder(handle_unknown="ignore"), ["city"]),
    (TfidfVectorizer(), "note"),
)
pipeline = make_pipeline(columns, LogisticRegression()).fit(table, labels)
graph = infuse.load(pipeline)
model = infuse.compile(graph)
feeds = {
    value.name: table[[value.name]].to_numpy(
        np.float64 if value.dtype.is_float else object
    ).reshape([-1, 1][: len(value.shape)])
    for value in graph.inputs
}
result = model.run(feeds)
np.testing.assert_array_equal(result["label"], pipeline.predict(table))
np.testing.assert_allclose(result["probabilities"], pipeline.predict_proba(table), atol=1e-6)
print("right")
"""
    )
    assert fresh.python("job.py").stdout.strip().endswith("right")


def test_an_edge_engineer_compiles_for_arm(fresh: Fresh) -> None:
    fresh.install(f"{ROOT}[zig]")
    small_network(fresh.folder / "model.onnx", batch=1)
    fresh.run("infuse", "compile", "model.onnx", "-o", "arm", "--target", "aarch64")
    (library,) = (fresh.folder / "arm").glob("*.so")
    data = library.read_bytes()
    assert data[:4] == b"\x7fELF"
    assert int.from_bytes(data[18:20], "little") == 183  # EM_AARCH64
    assert b".debug_info" not in data
