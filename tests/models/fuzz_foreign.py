"""Models of other formats than ONNX that are damaged for `fuzz_worker`: files, or folders of them.

Seeds are the committed files of each format, and small ones that are made here.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tests.support.mutation import mutated_bytes

DATA = Path(__file__).parent / "data"
Files = dict[str, bytes]
"""The files of a model by name; one that is no folder is called `model` and its suffix."""
_MOST: Final = 40
"""Seeds of a format."""


def _named(*names: str) -> Callable[[], list[Files]]:
    return lambda: [{f"model{Path(n).suffix}": (DATA / n).read_bytes()} for n in names]


def _trees(kind: str) -> Callable[[], list[Files]]:
    return lambda: [
        {f"model{path.suffix}": path.read_bytes()} for path in (DATA / "trees").glob(f"{kind}-*")
    ]


def _archived(folder: str, suffix: str) -> Callable[[], list[Files]]:
    def seeds() -> list[Files]:
        files = []
        for path in sorted((DATA / folder).glob("*.tar.xz")):
            with tarfile.open(path) as archive:
                members = [m for m in archive.getmembers() if m.name.endswith(suffix)]
                for member in members[:: max(len(members) // _MOST, 1)]:
                    stream = archive.extractfile(member)
                    assert stream is not None
                    files.append({f"model{suffix}": stream.read()})
        return files

    return seeds


def _folders(*names: str) -> Callable[[], list[Files]]:
    def seeds() -> list[Files]:
        return [
            {
                str(path.relative_to(DATA / name)): path.read_bytes()
                for path in sorted((DATA / name).rglob("*"))
                if path.is_file()
            }
            for name in names
        ]

    return seeds


def _saved_networks() -> list[Files]:
    from tests.models.tensorflow_files import cases

    networks = [
        {part[5:]: data.tobytes() for part, data in case.items() if part.startswith("file_")}
        for case in cases("networks.npz").values()
    ]
    return [*networks, *_folders("tensorflow/generation_1", "tensorflow/generation_2")()]


def _frozen() -> list[Files]:
    from tests.models.tensorflow_files import cases

    graphs = [case["graph"].tobytes() for case in cases("operators.npz").values()]
    return [{"model.pb": graph} for graph in graphs[:: max(len(graphs) // _MOST, 1)]]


def _tflite() -> list[Files]:
    from tests.models.test_tflite_bad_files import MODELS

    return [{"model.tflite": make().bytes()} for make in MODELS.values()]


def _torchscript() -> list[Files]:
    import torch

    from tests.models.torchscript_tools import saved, traced

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(3, 4)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y, (h, _) = self.lstm(x)
            return torch.cat([y, h])[:, 1:] + self.calls

    images = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    pairs = [(images, torch.zeros(1, 2, 5, 5)), (Recurrent(), torch.zeros(2, 3, 3))]
    return [{"model.pt": saved(traced(module.eval(), x))} for module, x in pairs]


def _huggingface() -> list[Files]:
    """A BERT and a Llama of one layer, whose weights are zeros."""
    from safetensors.numpy import save

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 12, "vocab_size": 9, "max_position_embeddings": 10}
    bert = {"model_type": "bert", "architectures": ["BertModel"], "type_vocab_size": 2}
    bert |= {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0}
    layer, norm = "encoder.layer.0.", ("weight", "bias")
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (9, 8),
        "embeddings.position_embeddings.weight": (10, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        **{f"embeddings.LayerNorm.{n}": (8,) for n in norm},
        **{f"{layer}attention.output.LayerNorm.{n}": (8,) for n in norm},
        **{f"{layer}output.LayerNorm.{n}": (8,) for n in norm},
        f"{layer}intermediate.dense.weight": (12, 8),
        f"{layer}intermediate.dense.bias": (12,),
        f"{layer}output.dense.weight": (8, 12),
        f"{layer}output.dense.bias": (8,),
    }
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        shapes[f"{layer}attention.{part}.weight"] = (8, 8)
        shapes[f"{layer}attention.{part}.bias"] = (8,)
    weights = save({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    return [{"config.json": json.dumps(bert | sizes).encode(), "model.safetensors": weights}]


def _mindir() -> list[Files]:
    from tests.models.mindspore_tools import records

    models = [record["model"].tobytes() for record in records("models").values()]
    operators = [record["model"].tobytes() for record in records("operators").values()]
    return [{"model.mindir": data} for data in models + operators[:: len(operators) // _MOST]]


def _paddle() -> list[Files]:
    """Programs of both generations, with their parameters beside them."""
    from tests.models.tensorflow_files import cases

    seeds = []
    for group in ("networks_old", "networks_pir", "flows_old", "flows_pir"):
        for case in cases(f"{group}.npz", DATA / "paddle").values():
            program = "pdmodel" if "pdmodel" in case else "json"
            files = {f"inference.{program}": case[program].tobytes()}
            if "pdiparams" in case:
                files["inference.pdiparams"] = case["pdiparams"].tobytes()
            seeds.append(files)
    return seeds


FORMATS: Final[Mapping[str, Callable[[], list[Files]]]] = {
    "pt2": _named("small.pt2"),
    "torchscript": _torchscript,
    "tflite": _tflite,
    "savedmodel": _saved_networks,
    "frozen": _frozen,
    "tfjs": _folders("tensorflow/web"),
    "keras": _archived("keras", ".keras"),
    "h5": _archived("keras", ".h5"),
    "huggingface": _huggingface,
    "mindir": _mindir,
    "paddle": _paddle,
    "xgboost": _trees("xgboost"),
    "lightgbm": _trees("lightgbm"),
    "catboost": _trees("catboost"),
}
"""Formats, and what makes their seeds."""


def damaged(seeds: Sequence[Files], rng: random.Random) -> Files:
    """The files of a seed, one of which has edits; of an archive, half the time those of a member,
    so that its own sums hold.
    """
    files = dict(rng.choice(seeds))
    name = rng.choice(sorted(files))
    others = [data for seed in seeds[:8] for data in seed.values()]
    data = files[name]
    if data[:4] == b"PK\x03\x04" and rng.random() < 0.6:
        files[name] = _with_damaged_member(data, others, rng)
    else:
        files[name] = mutated_bytes(data, others, rng)
    if len(files) > 1 and rng.random() < 0.02:
        del files[name]
    return files


def _with_damaged_member(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = rng.choice(sorted(members))
    members[chosen] = mutated_bytes(members[chosen], [*members.values(), *others[:4]], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def written(files: Files, place: Path) -> Path:
    """The files in a new folder; the path of the model."""
    folder = Path(tempfile.mkdtemp(dir=place))
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (only, *more) = files
    return folder / only if not more and only.startswith("model") else folder
