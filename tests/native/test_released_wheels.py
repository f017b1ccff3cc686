"""The wheels that `make wheel` has made of these sources: their sizes, and what each of their
libraries computes.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build.prebuilt import stamp
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.cpus import architecture, cpu_features
from infuse.runtime.levels import named_features
from tests.native.foreign import as_program, run_foreign
from tests.native.installations import dependencies, install, link, run_installed, size_of

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "tests" / "models" / "data" / "digits.onnx"
MACHINES = "x86_64", "aarch64"
MEGABYTE = 10**6
MOST_WHEEL, MOST_FILES, MOST_IN_ALL = 25 * MEGABYTE, 50 * MEGABYTE, 150 * MEGABYTE
"""Bytes of a wheel, of its files, and of these with all that they need and no extras."""


def wheel_for(machine: str) -> Path | None:
    """The wheel with libraries of the kernels that are here."""
    pattern = f"infuse-{infuse.__version__}-*_2_28_{machine}.whl"
    return next((path for path in ROOT.glob(f"dist/{pattern}") if stamped(path)), None)


def stamped(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        return all(stamp().encode() in archive.read(name) for name in libraries)


pytestmark = [
    pytest.mark.row("X1"),
    pytest.mark.full,
    pytest.mark.skipif(
        None in map(wheel_for, MACHINES), reason="`make wheel` makes what is tested"
    ),
]


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def installed(machine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = wheel_for(machine)
    assert wheel is not None
    folder = tmp_path_factory.mktemp(machine) / "installed"
    install(wheel, folder, f"manylinux_2_28_{machine}")
    return folder


def test_sizes(machine: str, installed: Path) -> None:
    wheel = wheel_for(machine)
    assert wheel is not None
    assert wheel.stat().st_size <= MOST_WHEEL
    own = sum(path.stat().st_size for path in installed.rglob("*") if path.is_file())
    assert own <= MOST_FILES
    needed = size_of([d for d in dependencies("infuse") if d.name != "infuse"])
    assert own + needed <= MOST_IN_ALL


def digits(rng: np.random.Generator) -> tuple[Graph, dict[str, np.ndarray]]:
    graph = infuse.optimize(infuse.load(DIGITS))
    (spec,) = graph.inputs
    sizes = [size if isinstance(size, int) else 4 for size in spec.shape]
    return graph, {spec.name: rng.random(sizes, np.float32)}


def libraries(installed: Path) -> Iterator[tuple[str, Path]]:
    """Targets and libraries of a wheel."""
    paths = sorted((installed / "infuse" / "prebuilt").glob("*.so"))
    assert paths
    for path in paths:
        yield path.stem.removeprefix("infuse-"), path


def test_every_library_runs_a_model(
    machine: str,
    installed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    graph, feeds = digits(rng)
    (expected,) = evaluate(graph, feeds).values()
    link([d for d in dependencies("infuse") if d.name != "infuse"], tmp_path / "needed")
    np.savez(tmp_path / "inputs.npz", **feeds)
    for target, path in libraries(installed):
        if machine != architecture():
            model = as_program(graph, path, target, tmp_path / target, monkeypatch)
            (answer,) = run_foreign(model, feeds, tmp_path, kernels=path).values()
        elif named_features(target) <= cpu_features():
            arguments = ["run", str(DIGITS), "--target", target, "--inputs", "inputs.npz"]
            done = run_installed(
                ["-m", "infuse", *arguments, "-o", "out.npz", "--compile", "never"],
                [installed, tmp_path / "needed"],
                tmp_path,
            )
            assert done.returncode == 0, done.stderr + done.stdout
            with np.load(tmp_path / "out.npz") as results:
                (answer,) = results.values()
        else:
            continue
        np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-6)
