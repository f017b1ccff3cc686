"""Whole architectures touch no memory outside of their tensors, at sizes and elements of their own
and at others.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

for package in ("torch", "timm", "transformers", "onnxscript", "onnxruntime"):
    if find_spec(package) is None:
        pytest.skip(
            f"{package} is needed to export the networks: pip install '.[test,zoo]'",
            allow_module_level=True,
        )

import torch  # noqa: E402  after the check that it can be imported

import infuse  # noqa: E402
from infuse.build.staged import lower_graph  # noqa: E402
from infuse.targets import Target  # noqa: E402
from tests.models.family_models import FAMILIES  # noqa: E402
from tests.native.test_memory_safety import disturbed, needs_sanitizer  # noqa: E402
from tests.support.sanitizing import Job, build_sanitized, reports, run_sanitized  # noqa: E402

CHOSEN = (
    *(
        "written/detector-nms",
        "written/autoencoder",
        "transformers/bert",
        "transformers/gpt2",
        "transformers/t5",
    ),
    *(
        "transformers/clip-text",
        "transformers/swin",
        "transformers/resnet",
        "transformers/llama",
        "written/gru-tagger",
    ),
)

pytestmark = [needs_sanitizer, pytest.mark.full, pytest.mark.row("C7")]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CHOSEN)
def test_a_family_stays_inside_its_tensors(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network, path = FAMILIES[name]().prepare(), tmp_path / "model.onnx"
    network.export("legacy", path, True)
    graph = infuse.optimize(infuse.load(path))
    program = lower_graph(graph, Target.resolve("native"), 2)
    rng = np.random.default_rng(0)
    inputs = [network.feeds(number) for number in range(2)]
    names = [value.name for value in graph.inputs]
    own = [{key: feeds[key] for key in names} for feeds in inputs]
    job = Job(
        *build_sanitized([program], tmp_path),
        [*own, *(disturbed(dict(one), rng) for one in own for _ in range(8))],
    )
    run_sanitized([job], seconds=300)
    assert job.outcomes[0].outputs is not None, job.outcomes[0]
    assert not reports([job]), reports([job])[0][2]
