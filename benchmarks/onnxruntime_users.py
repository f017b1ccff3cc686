"""The code of popular users of ONNX Runtime, unchanged, with Infuse in its place:
`python -m benchmarks.onnxruntime_users [NAME …] [--environment DIR] [--json FILE]`.

Makes a virtual environment with the packages (some gigabytes, once), prepares small models there
without downloading any, and runs each program of `onnxruntime_user_programs` twice: as it is, and
with INFUSE_AS_ONNXRUNTIME=1. Numbers may differ by TOLERANCE of the largest element, all else must
be equal. Exits with 1 where a program fails or answers differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.onnxruntime_user_programs import PROGRAMS

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    *("torch==2.13.0", "torchvision", "onnxruntime>=1.20", "sentence-transformers[onnx]>=5"),
    *("optimum-onnx[onnxruntime]>=0.1", "silero-vad>=6", "rapidocr>=3", "ultralytics>=8.3"),
)
TOLERANCE: Final = 1e-4
LIMIT: Final = 1800


def main() -> None:
    """Run the programs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "users")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - {*PROGRAMS}:
        parser.error(f"no program is called {', '.join(sorted(unknown))}: {', '.join(PROGRAMS)}")
    python = environment(arguments.environment)
    results = {
        name: compared(python, name, arguments.environment / "models" / name)
        for name in arguments.names or PROGRAMS
    }
    for name, result in results.items():
        print(f"{name:24}{shown(result)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1), "utf-8")
    sys.exit(any(result["error"] or not result["is_same"] for result in results.values()))


def environment(folder: Path) -> Path:
    """The interpreter of a virtual environment with this checkout and the packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-e", ROOT, *PACKAGES], check=True)
        remove_foreign_torchvision(python)
    return python


def remove_foreign_torchvision(python: Path) -> None:
    """Remove the modules of a torchvision that was built for another torch (which pip does not
    tell apart), as every import of transformers would fail by it. Its metadata stays: ultralytics
    asks for its release, and needs no more of it here.
    """
    test = [python, "-c", "import torchvision"]
    if subprocess.run(test, check=False, capture_output=True).returncode:
        where = "import importlib.util as u; print(u.find_spec('torchvision').origin)"
        origin = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
        shutil.rmtree(Path(origin.stdout.strip()).parent)


def compared(python: Path, name: str, folder: Path) -> dict[str, Any]:
    """Both runs of one program, and how far their answers are apart."""
    result: dict[str, Any] = {"error": "", "is_same": False}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if not (folder / "prepared").exists():
            run(python, "prepare", name, folder)
            (folder / "prepared").touch()
        theirs, ours = (
            run(python, "run", name, folder, folder / f"{module}.npz", module)
            for module in ("onnxruntime", "infuse")
        )
    except RuntimeError as error:
        return result | {"error": str(error)}
    builds = [str(answers.pop("build")) for answers in (theirs, ours)]
    if [build.startswith("Infuse") for build in builds] != [False, True]:
        return result | {"error": f"the modules were {' and '.join(builds)}"}
    distances = {key: distance(theirs[key], ours.get(key)) for key in theirs}
    is_same = theirs.keys() == ours.keys() and all(d <= TOLERANCE for d in distances.values())
    return result | {"is_same": is_same, "distances": distances}


def run(
    python: Path, task: str, name: str, folder: Path, output: Path | None = None, module: str = ""
) -> dict[str, Any]:
    """The answers of a program in a process of its own; RuntimeError where it fails."""
    variables = {"INFUSE_AS_ONNXRUNTIME": "1" if module == "infuse" else "0", "HF_HUB_OFFLINE": "1"}
    command = [python, "-m", "benchmarks.onnxruntime_user_programs", task, name, folder]
    done = subprocess.run(
        [*command, *([output] if output else [])],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{task} with {module or 'onnxruntime'}:\n{done.stdout[-4000:]}")
    if output is None:
        return {}
    with np.load(output) as arrays:
        return dict(arrays)


def distance(expected: np.ndarray[Any, Any], result: np.ndarray[Any, Any] | None) -> float:
    """The largest difference over the largest element; of what are no floats, 0 or infinity."""
    if result is None or result.shape != expected.shape or result.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind != "f" or not expected.size:
        return 0.0 if np.array_equal(expected, result) else float("inf")
    if not np.array_equal(np.isfinite(expected), np.isfinite(result)):
        return float("inf")
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(expected.astype(np.float64) - result).max()) / scale


def shown(result: dict[str, Any]) -> str:
    """A line of the table."""
    if result["error"]:
        return f"fails: {result['error']}"
    worst = max(result["distances"].values(), default=0.0)
    word = "same" if result["is_same"] else "DIFFERS"
    return f"{word}: {len(result['distances'])} answers, largest difference {worst:.1e}"


if __name__ == "__main__":
    main()
