"""Writes tests/models/data/mindspore with MindSpore itself: models, inputs, and its own outputs.

    python -m tests.models.make_mindspore [models | operators | dynamic [NAME …]]

MindSpore 2.10 (`pip install mindspore`) runs on its CPU backend, in graph mode.
"""

from __future__ import annotations

import importlib.util
import io
import lzma
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore.train import serialization

import tests.models.mindspore_cases_edges  # noqa: F401  adds its cases
from tests.models.mindspore_cases import CASES, floats
from tests.models.mindspore_models import DYNAMIC, MODELS, SOURCE
from tests.models.mindspore_tools import DATA, stored


def module_of(folder: Path, name: str, text: str) -> Any:
    """A module of this text; MindSpore reads the source of what it compiles."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def source(number: int, layers: str, expression: str, count: int) -> str:
    """The class of a case."""
    made = [f"self.{part.strip()}" for part in layers.split("; ") if part] or ["pass"]
    body = "".join(f"        {line}\n" for line in made)
    arguments = ", ".join("xyz"[:count])
    return (
        f"class Net{number}(nn.Cell):\n    def __init__(self):\n        super().__init__()\n{body}"
        f"    def construct(self, {arguments}):\n        return {expression}\n\n"
    )


def flat(made: Any) -> list[np.ndarray]:
    """All tensors of a result."""
    if isinstance(made, (list, tuple)):
        return [array for part in made for array in flat(part)]
    return [made.asnumpy() if isinstance(made, ms.Tensor) else np.asarray(made)]


def filled(net: Any) -> None:
    """Numbers of their own for parameters that MindSpore begins with zeros and ones."""
    rng = np.random.default_rng(3)
    for parameter in net.get_parameters():
        shape = parameter.shape
        low = 0.5 if "variance" in parameter.name or "running_var" in parameter.name else -0.6
        numbers = rng.uniform(low, 0.6 if low < 0 else 1.5, shape)
        parameter.set_data(ms.Tensor(numbers.astype(np.float32)))


def exported(
    net: Any, feeds: list[np.ndarray], folder: Path, name: str, shapes: list[Any] | None = None
) -> dict[str, np.ndarray]:
    """The file that MindSpore writes, with inputs and outputs, as arrays."""
    net.set_train(False)
    tensors = [ms.Tensor(feed) for feed in feeds]
    made = flat(net(*tensors))
    path = folder / f"{name}.mindir"
    examples = tensors
    if shapes is not None:
        examples = [ms.Tensor(shape=s, dtype=t.dtype) for s, t in zip(shapes, tensors)]
    ms.export(net, *examples, file_name=str(path.with_suffix("")), file_format="MINDIR")
    arrays = {"model": np.frombuffer(path.read_bytes(), np.uint8)}
    arrays |= {f"in{i}": feed for i, feed in enumerate(feeds)}
    arrays |= {f"out{i}": array for i, array in enumerate(made)}
    return arrays


def cases(folder: Path, names: list[str], dynamic: bool = False) -> dict[str, np.ndarray]:
    """All cases that MindSpore runs and exports, `dynamic` without fixed sizes; the others are
    named.
    """
    chosen = [name for name in CASES if not names or name in names]
    head = "import mindspore as ms\nfrom mindspore import mint, nn, ops\n\n"
    text = "".join(
        source(number, CASES[name][0], CASES[name][1], len(CASES[name][2]))
        for number, name in enumerate(chosen)
    )
    module = module_of(folder, "mindspore_nets", head + text)
    arrays = {}
    for number, name in enumerate(chosen):
        try:
            net = getattr(module, f"Net{number}")()
            filled(net)
            feeds = CASES[name][2]
            shapes = [(None,) * feed.ndim for feed in feeds] if dynamic else None
            for key, array in exported(net, feeds, folder, f"case{number}", shapes).items():
                arrays[f"{name}|{key}"] = array
        except Exception as error:  # whatever MindSpore cannot do is not a case
            first = next((line for line in str(error).splitlines() if line.strip(" -")), "")
            print(f"{name}: MindSpore does not run this: {type(error).__name__} {first[:150]}")
    return arrays


def models(folder: Path) -> dict[str, np.ndarray]:
    """Whole networks, also with sizes that are not fixed."""
    module = module_of(folder, "mindspore_networks", SOURCE)
    rows: dict[str, tuple[str, list[np.ndarray], Any]] = {
        name: (*row, None) for name, row in MODELS.items()
    }
    rows |= {f"{name}-dynamic": row for name, row in DYNAMIC.items()}
    arrays = {}
    for number, (name, (text, feeds, shapes)) in enumerate(rows.items()):
        net = eval(text, vars(module))
        filled(net)
        for key, array in exported(net, feeds, folder, f"model{number}", shapes).items():
            arrays[f"{name}|{key}"] = array
        print(f"{name}: {len(arrays[f'{name}|model'])} bytes")
    return arrays


def external(folder: Path) -> None:
    """A model whose parameters lie in a file beside it, and an encrypted one."""
    module = module_of(folder, "mindspore_large", SOURCE)
    net = eval("nn.SequentialCell(nn.Dense(40, 30), nn.ReLU(), nn.Dense(30, 3))", vars(module))
    filled(net)
    net.set_train(False)
    feed = floats(2, 40)
    made = net(ms.Tensor(feed)).asnumpy()
    place = str(folder / "large")
    serialization.TOTAL_SAVE = 1  # kilobytes in one file
    ms.export(net, ms.Tensor(feed), file_name=place, file_format="MINDIR")
    serialization.TOTAL_SAVE = 1 << 20
    target = DATA / "large_variables"
    target.mkdir(exist_ok=True)
    (DATA / "large.mindir").write_bytes((folder / "large_graph.mindir").read_bytes())
    (target / "data_0").write_bytes((folder / "large_variables" / "data_0").read_bytes())
    write(DATA / "large.npz.xz", {"large|in0": feed, "large|out0": made})
    key = {"enc_key": b"0123456789ABCDEF", "enc_mode": "AES-GCM"}
    ms.export(net, ms.Tensor(feed), file_name=place, file_format="MINDIR", **key)
    (DATA / "encrypted.mindir").write_bytes((folder / "large.mindir").read_bytes()[:256])


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Arrays by name, all compressed together."""
    target = io.BytesIO()
    np.savez(target, **arrays)  # type: ignore[arg-type]
    path.write_bytes(lzma.compress(target.getvalue(), preset=9))


def main() -> None:
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.chdir(folder)  # MindSpore writes reports of what it does not compile
        what, *names = sys.argv[1:] or ["all"]
        if what in ("models", "all"):
            write(DATA / "models.npz.xz", models(folder))
            external(folder)
        for file in ("operators", "dynamic"):
            if what in (file, "all"):
                arrays = cases(folder, names, file == "dynamic")
                if names:  # the others stay as they are
                    kept = {k: v for k, v in stored(file).items() if k.rpartition("|")[0] in CASES}
                    arrays = {**kept, **arrays}
                write(DATA / f"{file}.npz.xz", arrays)
                count = sum(key.endswith("|model") for key in arrays)
                print(f"{file}: {count} operators")


if __name__ == "__main__":
    main()
