"""Folders of Hugging Face that are damaged, incomplete, or of kinds that are not read."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.huggingface.files import read_safetensors

CONFIG = {"model_type": "gpt2", "architectures": ["GPT2Model"], "n_layer": 0, "n_head": 2}
CONFIG |= {"n_embd": 4, "layer_norm_epsilon": 1e-5}
WEIGHTS = {
    "wte.weight": np.arange(20, dtype=np.float32).reshape(5, 4),
    "wpe.weight": np.ones((3, 4), np.float32),
    "ln_f.weight": np.ones(4, np.float32),
    "ln_f.bias": np.zeros(4, np.float32),
}


def stored(weights: dict[str, np.ndarray], **changes: Any) -> bytes:
    """A safetensors file; `changes` are made to the header's entry of every tensor."""
    header, place, data = {}, 0, b""
    for name, array in weights.items():
        entry = {"dtype": "F32", "shape": list(array.shape)}
        entry["data_offsets"] = [place, place + array.nbytes]
        header[name] = entry | changes
        place += array.nbytes
        data += array.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(stored(WEIGHTS))
    return tmp_path


def test_a_folder_is_told_by_its_content(folder: Path) -> None:
    graph = infuse.load(folder)
    assert [v.name for v in graph.inputs] == ["input_ids", "attention_mask"]
    assert str(graph.outputs[0].type) == "float32[batch, sequence, 4]"


def test_weights_are_read_in_place(folder: Path) -> None:
    path = folder / "large.safetensors"
    path.write_bytes(stored({"w": np.ones((1 << 19,), np.float32)}))
    array = read_safetensors(path)["w"]
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("config.json", "{", "not JSON"),
        ("config.json", "[]", "not a JSON object"),
        ("config.json", "{}", "no 'model_type'"),
        ("config.json", json.dumps(CONFIG | {"model_type": "strange"}), "'strange'"),
        ("config.json", json.dumps(CONFIG | {"architectures": ["GPT2Odd"]}), "'GPT2Odd'"),
        ("config.json", json.dumps(CONFIG | {"quantization_config": {}}), "quantization_config"),
        ("config.json", json.dumps(CONFIG | {"n_layer": 1}), "no weight 'h.0.ln_1.weight'"),
        ("config.json", json.dumps(CONFIG | {"layer_norm_epsilon": None}), "layer_norm_epsilon"),
        ("config.json", json.dumps(CONFIG | {"n_layer": "many"}), "do not fit"),
        ("model.safetensors", stored(WEIGHTS)[:7], "not a safetensors file"),
        ("model.safetensors", stored(WEIGHTS)[:60], "not a safetensors file"),
        ("model.safetensors", stored(WEIGHTS)[:-4], "damaged"),
        ("model.safetensors", stored(WEIGHTS, shape=[1 << 62, 4]), "damaged"),
        ("model.safetensors", stored(WEIGHTS, shape=[-1]), "damaged"),
        ("model.safetensors", stored(WEIGHTS, data_offsets=[-8, 8]), "damaged"),
        ("model.safetensors", stored(WEIGHTS, dtype="F7"), "damaged"),
        ("model.safetensors", (1 << 62).to_bytes(8, "little") + b"{}", "not a safetensors file"),
    ],
)
def test_bad_files_are_refused(folder: Path, name: str, content: str | bytes, what: str) -> None:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    with pytest.raises(InfuseError, match=what) as caught:
        infuse.load(folder)
    assert str(folder) in str(caught.value)


def test_missing_weights_and_shards_are_named(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    with pytest.raises(ModelFileError, match="neither"):
        infuse.load(folder)
    for places, what in (
        ({"wte.weight": "b.safetensors"}, r"'b\.safetensors' is missing"),
        ({"wte.weight": "../a.safetensors"}, "outside the folder"),
        ({"more": "a.safetensors"}, "'more'"),
        (None, "no weight_map"),
    ):
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": places}))
        with pytest.raises(ModelFileError, match=what):
            infuse.load(folder)


def test_weights_that_no_layer_uses_are_told(folder: Path) -> None:
    more = WEIGHTS | {"strange.weight": np.ones(3, np.float32)}
    (folder / "model.safetensors").write_bytes(stored(more))
    with pytest.warns(UserWarning, match=r"1 weights are not used .*strange\.weight"):
        infuse.load(folder)


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("gpt2", "GPT2DoubleHeadsModel"),
        ("gpt2", "GPT2ForSequenceClassification"),
        ("t5", "T5ForTokenClassification"),
        ("whisper", "WhisperForAudioClassification"),
        ("electra", "ElectraForMaskedLM"),
        ("mpnet", "MPNetForSequenceClassification"),
    ],
)
def test_heads_without_a_template_are_refused(folder: Path, kind: str, architecture: str) -> None:
    config = CONFIG | {"model_type": kind, "architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedOperatorError, match=architecture):
        infuse.load(folder)


def test_attention_to_both_sides_is_refused(folder: Path) -> None:
    config = {"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], "head_dim": 2}
    config |= {"hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 0}
    config |= {"use_bidirectional_attention": True}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedOperatorError, match="use_bidirectional_attention"):
        infuse.load(folder)


def test_rotary_places_of_unknown_types_are_refused(folder: Path) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4}
    config |= {"num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "rope_scaling": {"type": "spiral", "factor": 2.0}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedOperatorError, match="'spiral'"):
        infuse.load(folder)


def test_changed_bytes_do_no_harm(folder: Path) -> None:
    rng = np.random.default_rng(3)
    for name in ("config.json", "model.safetensors"):
        good = (folder / name).read_bytes()
        for _ in range(150):
            data = bytearray(good)
            for place in rng.integers(0, min(len(data), 400), 3):
                data[place] = rng.integers(256)
            (folder / name).write_bytes(bytes(data))
            with contextlib.suppress(InfuseError, UserWarning):
                infuse.load(folder)
        (folder / name).write_bytes(good)
