"""Instructions of one run on 64-bit ARM beside ONNX Runtime's wheel for it.

    python -m benchmarks.aarch64 ZOO [--json FILE]

Both run in the same Python under QEMU, with one thread. A count says nothing of time: loads that
miss, and what runs side by side, do not show.

ZOO is the folder of `python -m benchmarks.zoo_models`. It needs qemu-user, gcc, ziglang, and
Debian's packages for arm64 (`dpkg --add-architecture arm64 && apt-get update`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import infuse
from benchmarks.inputs import make_inputs
from benchmarks.light.instructions import NoCounts, counted, plugin_for, versions
from benchmarks.quantized import quantize
from infuse.runtime.checked import sha256_of
from infuse.runtime.folder import WEIGHTS

PEER = "onnxruntime==1.26.0"
"""The newest whose import QEMU 7.2 survives: 1.28, 1.31 and 1.32 end with a segmentation fault."""
PROCESSOR = "cortex-a76"
TARGETS = {"fp32": "linux-arm64", "int8": "linux-arm64+asimddp"}
NETWORKS = ("resnet50", "mobilenet_v2", "minilm_l6")
DIMS = {"batch": 1, "seq": 128}
DEBIAN = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6"),
    *("libstdc++6", "libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5"),
)
CHILD = """
import sys
import numpy as np
which, model, feeds, runs = *sys.argv[1:4], int(sys.argv[4])
feeds = dict(np.load(feeds))
if which == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    run = lambda: session.run(None, feeds)
else:
    import infuse
    import infuse.runtime.model
    infuse.runtime.model.check_cpu = lambda *told: None  # the emulator does not tell what it has
    loaded = infuse.load_compiled(model, threads=1)
    run = lambda: list(loaded.run(feeds).values())
for _ in range(runs):
    results = run()
print("result", *(float(np.abs(r).mean()) for r in results))
"""


def called(*command: object, folder: Path) -> None:
    """Run a command; NoCounts where it fails."""
    words = [*map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise NoCounts(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[-500:]}")


def arm_python(folder: Path) -> tuple[Path, Path]:
    """The root of a Python for 64-bit ARM, and a folder with the packages that it imports."""
    root, debs, site = (folder / name for name in ("root", "debs", "site"))
    for each in (root, debs, site):
        each.mkdir(exist_ok=True)
    if not (root / "usr/bin/python3.11").exists():
        called("apt-get", "download", *(f"{name}:arm64" for name in DEBIAN), folder=debs)
        for package in debs.glob("*.deb"):
            called("dpkg", "-x", package, root, folder=debs)
    if not (site / "onnxruntime").exists():
        platforms = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
        named = [f"--platform={name}" for name in platforms]
        packages = (PEER, "numpy", "ml_dtypes", "platformdirs")
        called(
            *(sys.executable, "-m", "pip", "install", "-q", "--target", site),
            *("--python-version=311", "--only-binary=:all:", *named, *packages),
            folder=folder,
        )
    return root, site


class Counter:
    """Counts the instructions of runs in a Python for 64-bit ARM."""

    def __init__(self, folder: Path) -> None:
        root, site = arm_python(folder)
        child, source = folder / "child.py", Path(infuse.__file__).parents[1]
        child.write_text(CHILD)
        python = str(root / "usr/bin/python3.11")
        options = ("-cpu", PROCESSOR, "-L", str(root), "-E", f"PYTHONPATH={site}:{source}")
        self._command = (*options, python, str(child))
        self._plugin = plugin_for((*options, python, "-c", "pass"), folder)

    def count(self, which: str, model: Path, feeds: Path) -> tuple[int, list[float]]:
        """Instructions of one run after the first, and the mean of each output's elements."""
        command = (*self._command, which, str(model), str(feeds))
        (once, _), (twice, text) = (counted(self._plugin, (*command, n)) for n in "12")
        means = text[text.index("result ") :].split()[1:]
        return twice - once, [*map(float, means)]


def measured(zoo: Path, folder: Path, networks: Sequence[str]) -> Iterator[dict[str, object]]:
    """A row for each network and precision."""
    counter = Counter(folder)
    for name in networks:
        path = zoo / f"{name}.onnx"
        feeds = folder / f"{name}.npz"
        np.savez(feeds, **make_inputs(path, DIMS, 0))
        for precision, model in (("fp32", path), ("int8", quantize(path, folder, DIMS)[0])):
            compiled = folder / f"{name}-{precision}"
            options = infuse.CompileOptions(target=TARGETS[precision], threads=1)
            infuse.compile(infuse.optimize(model), options, output=compiled)
            time.sleep(3)  # files that changed just now are not noted
            sha256_of(compiled / WEIGHTS)  # so that no run reads the file for it
            own, our_means = counter.count("infuse", compiled, feeds)
            peer, peer_means = counter.count("onnxruntime", model, feeds)
            close = np.allclose(our_means, peer_means, rtol=0.1 if precision == "int8" else 1e-3)
            row = {"network": name, "precision": precision, "infuse": own, "onnxruntime": peer}
            yield {**row, "ratio": own / peer, "agree": bool(close)}


def main() -> None:
    """Print the rows, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--work", type=Path, help="where what is downloaded stays")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = asked.work or Path(name)
        folder.mkdir(exist_ok=True)
        for row in measured(asked.zoo, folder.absolute(), asked.networks):
            rows.append(row)
            print(
                f"{row['network']:14} {row['precision']} {row['infuse'] / 1e6:10.1f} M "  # type: ignore[operator]
                f"{row['onnxruntime'] / 1e6:10.1f} M  {row['ratio']:.2f} ×  agree: {row['agree']}",  # type: ignore[operator]
                flush=True,
            )
    if asked.json:
        facts = {"peer": PEER, "processor": PROCESSOR, "versions": dict(versions()), "rows": rows}
        asked.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
