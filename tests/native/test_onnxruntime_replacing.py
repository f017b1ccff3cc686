"""Infuse in the place of ONNX Runtime: by `python -m`, by the environment, by `install`."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import infuse
import infuse.onnxruntime as ours
from _infuse_as_onnxruntime import Replacement
from tests.native.ort_fixtures import onnxruntime
from tests.native.session_models import ADDER

pytestmark = pytest.mark.row("R9")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib.metadata, importlib.util, sys
assert importlib.util.find_spec("onnxruntime") is not None
assert "infuse" not in sys.modules or BY_INFUSE
assert importlib.metadata.version("onnxruntime") == VERSION
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
from onnxruntime import InferenceSession
from onnxruntime.quantization import QuantType
import onnxruntime.capi._pybind_state as C
import infuse.onnxruntime
assert ort is infuse.onnxruntime and C.Fail is infuse.onnxruntime.errors.Fail
assert infuse.onnxruntime.__spec__.name == "infuse.onnxruntime"
assert importlib.util.find_spec("onnxruntime.no_such_module") is None
try:
    InferenceSession("missing.onnx")
except NoSuchFile as error:
    print(type(error).__name__, sys.argv[1:])
"""


def run_python(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = {n: v for n, v in os.environ.items() if n != "INFUSE_AS_ONNXRUNTIME"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=variables | {"PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def program(folder: Path, *, by_infuse: bool) -> Path:
    path = folder / "program.py"
    text = PROGRAM.replace("VERSION", repr(ours.__version__))
    path.write_text(text.replace("BY_INFUSE", str(by_infuse)), "utf-8")
    return path


@pytest.mark.parametrize("is_module", [False, True])
def test_a_program_is_run_in_the_place_of_onnxruntime(is_module: bool, tmp_path: Path) -> None:
    path = program(tmp_path, by_infuse=True)
    target = ("-m", path.stem) if is_module else (str(path),)
    run = run_python(tmp_path, "-m", "infuse.onnxruntime", *target, "--flag", "1")
    assert run.stderr == ""
    assert run.stdout == "NoSuchFile ['--flag', '1']\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((), "usage: python -m"), (("--verbose",), "usage: python -m"), (("no.py",), "no file no.py")],
)
def test_a_program_that_is_not_there(arguments: Any, text: str, tmp_path: Path) -> None:
    run = run_python(tmp_path, "-m", "infuse.onnxruntime", *arguments)
    assert run.returncode == 1
    assert text in run.stderr
    assert "Traceback" not in run.stderr


def test_help_is_given(tmp_path: Path) -> None:
    run = run_python(tmp_path, "-m", "infuse.onnxruntime", "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("usage: python -m infuse.onnxruntime (script.py | -m module)")


def test_infuse_is_not_compared_with_itself(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    command = ("-m", "infuse", "bench", "model.onnx", "--against", "onnxruntime")
    run = run_python(tmp_path, "-m", "infuse.onnxruntime", *command)
    assert run.returncode
    assert "there is nothing to compare with" in " ".join(run.stderr.split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installed wheel of this checkout puts beside the package."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("site")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "infuse_as_onnxruntime" in name]
        archive.extractall(folder, names)
    assert sorted(names) == ["_infuse_as_onnxruntime.py", "infuse_as_onnxruntime.pth"]
    return folder


def started_with(site: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a Python whose start reads the .pth files of `site`."""
    start = f"import site, sys; sys.argv = ['-c']; site.addsitedir({str(site)!r})\n"
    return run_python(site, "-c", start + text, **environment)


def test_the_environment_puts_infuse_in_the_place_of_onnxruntime(site: Path) -> None:
    text = program(site, by_infuse=False).read_text("utf-8")
    run = started_with(site, text, INFUSE_AS_ONNXRUNTIME="1")
    assert run.stderr == ""
    assert run.stdout == "NoSuchFile []\n"


@pytest.mark.parametrize("value", [{}, {"INFUSE_AS_ONNXRUNTIME": "0"}])
def test_without_the_variable_nothing_is_imported(site: Path, value: dict[str, str]) -> None:
    text = """
print(sorted(name for name in sys.modules if "infuse" in name))
import onnxruntime
print(onnxruntime.__file__)
"""
    run = started_with(site, text, **value)
    assert run.stderr == ""
    assert run.stdout.splitlines() == ["[]", onnxruntime.__file__]


def test_the_package_is_listed_where_onnxruntime_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [Replacement(), *sys.meta_path])
    assert importlib.metadata.version("onnxruntime") == ours.__version__
    assert importlib.metadata.packages_distributions() == {"onnxruntime": ["onnxruntime"]}
    (own,) = importlib.metadata.distributions()
    assert own.metadata["Name"] == "onnxruntime"
    assert own.files is None


def test_installing_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    finders = list(sys.meta_path)
    modules = {n: m for n, m in sys.modules.items() if n.split(".")[0] == "onnxruntime"}
    with pytest.warns(RuntimeWarning, match="onnxruntime was imported before"):
        ours.install()
    try:
        ours.install()
        assert len(sys.meta_path) == len(finders) + 1
        assert importlib.import_module("onnxruntime") is ours
        assert importlib.import_module("onnxruntime.capi") is ours.capi
    finally:
        ours.uninstall()
        sys.modules.update(modules)
    assert sys.meta_path == finders
    assert importlib.import_module("onnxruntime") is onnxruntime
    assert infuse.InferenceSession is ours.InferenceSession
