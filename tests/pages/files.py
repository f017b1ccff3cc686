"""The files that pages speak of: small real models and data. Each function writes one to a path."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import infuse
from examples.networks import Builder, mobilenet_v2
from infuse import training
from infuse.cli.main import main
from infuse.ir.parser import parse
from tests.cli_tools import small_network
from tests.compression_networks import weights
from tests.support.gguf_writer import BYTE_VOCABULARY, decoder as gguf_decoder

DATA = Path(__file__).parents[1] / "models" / "data"
COARSE = "stem.1.0.weight"
"""Weights of the digits' network that `coarse` rounds."""
FEW = 120
"""Images for what takes long with all."""
Writer = Callable[[Path], Any]


def network(path: Path) -> None:
    """image [batch, 3, 224, 224] → pooled [mean] [batch, 4, 1, 1]."""
    small_network(path, size=224)


def mobilenet(path: Path) -> None:
    """input [1, 3, 224, 224] → scores of 1000 classes."""
    onnx.save(mobilenet_v2(), path)


def digits(path: Path) -> None:
    """A trained network: image [batch, 1, 8, 8] → logits [batch, 10]."""
    shutil.copy(DATA / "digits.onnx", path)


def small_digits(path: Path) -> None:
    """A network as `digits` that has two layers, trained on `few_images`."""
    rng = np.random.default_rng(0)
    graph = parse(f"""graph "digits" (%image: float32[batch, 1, 8, 8]) {{
      %a = Conv(%image, {weights(rng, 16, 1, 3, 3)}, {weights(rng, 16)}, pads=(1, 1, 1, 1))
      %b = Relu(%a)
      %c = MaxPool(%b, kernel_shape=(2, 2), strides=(2, 2))
      %d = Conv(%c, {weights(rng, 16, 16, 3, 3)}, {weights(rng, 16)}, pads=(1, 1, 1, 1))
      %e = Relu(%d)
      %f = Flatten(%e)
      %y = Gemm(%f, {weights(rng, 256, 10)}, {weights(rng, 10)})
      return logits = %y
    }}""")
    x, y = _pixels()
    options = training.TrainOptions(
        loss="cross_entropy", optimizer=training.AdamW(rate=0.01), epochs=30, batch_size=32
    )
    trained, report = training.train(graph, x[:FEW], y[:FEW], options)
    assert report.losses[-1] < 0.05
    infuse.save(trained, path)


def _pixels() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of the digits' test, as its network reads them."""
    with np.load(DATA / "digits_test.npz") as saved:
        return saved["pixels"].astype(np.float32) / 16, saved["labels"]


def coarse(path: Path) -> None:
    """The digits' network with the weights of one convolution rounded to three bits."""
    model = onnx.load(DATA / "digits.onnx")
    (tensor,) = (t for t in model.graph.initializer if t.name == COARSE)
    values = numpy_helper.to_array(tensor)
    step = np.float32(np.abs(values).max() / 3)
    tensor.CopyFrom(numpy_helper.from_array(np.round(values / step) * step, COARSE))
    onnx.save(model, path)


def images(path: Path) -> None:
    """The images of the digits' test."""
    np.savez(path, image=_pixels()[0])


def labels(path: Path) -> None:
    """The label of each of these images."""
    np.save(path, _pixels()[1])


def few_images(path: Path) -> None:
    np.savez(path, image=_pixels()[0][:FEW])


def few_labels(path: Path) -> None:
    np.save(path, _pixels()[1][:FEW])


def real(path: Path) -> None:
    """An input for `network`."""
    np.savez(path, image=np.ones((2, 3, 224, 224), np.float32))


def pictures(path: Path) -> None:
    """An input for `classifier`."""
    np.savez(path, x=np.ones((1, 3, 224, 224), np.float32))


def _text(graph: str, path: Path) -> None:
    infuse.save(parse(graph), path)


def relu(path: Path) -> None:
    """input [n, 4] → y [n, 4]."""
    _text('graph "relu" (%input: float32[n, 4]) {\n  %y = Relu(%input)\n  return y = %y\n}', path)


def classifier(path: Path) -> None:
    """x [n, 3, 224, 224] → y [n, 5], as networks of images are served."""
    rng = np.random.default_rng(0)
    _text(
        f"""graph "classifier" (%x: float32[n, 3, 224, 224]) {{
          %means = GlobalAveragePool(%x)
          %row = Flatten(%means)
          %y = Gemm(%row, {weights(rng, 3, 5)}, {weights(rng, 5)})
          return y = %y
        }}""",
        path,
    )


def rectifier(path: Path) -> None:
    """x [n, 4] → y [n, 4]."""
    _text('graph "scores" (%x: float32[n, 4]) {\n  %y = Relu(%x)\n  return y = %y\n}', path)


def embedder(path: Path) -> None:
    """input_ids [batch, length] → last_hidden_state [batch, length, 8]."""
    table = weights(np.random.default_rng(0), 16, 8)
    _text(
        f"""graph "texts" (%input_ids: int64[batch, length]) {{
          %rows = Gather({table}, %input_ids)
          %y = Tanh(%rows)
          return last_hidden_state = %y
        }}""",
        path,
    )


def names_of_classes(path: Path) -> None:
    path.write_text("cat\ndog\nfox\nhen\nowl\n", encoding="utf-8")


def yolo(path: Path) -> None:
    """Boxes and scores [1, 84, 100] of images [1, 3, 320, 320], as exports of YOLOv8 give them."""
    make = Builder(seed=3)
    cells = make.op("AveragePool", "images", kernel_shape=[32, 32], strides=[32, 32])
    filters = make.weight(make.rng.standard_normal((84, 3, 1, 1), np.float32) * 4)
    shares = make.op("Sigmoid", make.op("Conv", cells, filters))
    scale = make.weight(np.array([320, 320, 90, 90] + [1] * 80).reshape(1, 84, 1, 1))
    numbers = make.op("Mul", shares, scale)
    shape = make.constant(np.array([1, 84, 100]))
    make.nodes.append(helper.make_node("Reshape", [numbers, shape], ["output0"]))
    graph = helper.make_graph(
        make.nodes,
        "yolo",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 320, 320])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 84, 100])],
        make.weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def photo(path: Path) -> None:
    """300 rows of 450 pixels."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (6, 9, 3), np.uint8))
    small.resize((450, 300), Image.Resampling.NEAREST).save(path)


def decoder(folder: Path) -> None:
    """A GPT-2 of one layer with random weights."""
    folder.mkdir()
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1}
    config |= {"n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 50}
    config |= {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    shapes = {"wte": (50, 16), "wpe": (64, 16), "h.0.attn.c_attn": (16, 48)}
    shapes |= {"h.0.attn.c_proj": (16, 16), "h.0.mlp.c_fc": (16, 64), "h.0.mlp.c_proj": (64, 16)}
    rng = np.random.default_rng(0)
    arrays = {f"transformer.{n}.weight": rng.normal(size=s) for n, s in shapes.items()}
    for name, (_, size) in shapes.items():
        arrays |= {} if name[0] == "w" else {f"transformer.{name}.bias": np.zeros(size)}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        arrays[f"transformer.{name}.weight"] = np.ones(16)
        arrays[f"transformer.{name}.bias"] = np.zeros(16)
    floats = {name: array.astype(np.float32) for name, array in arrays.items()}
    safetensors.numpy.save_file(floats, folder / "model.safetensors")


def bert(folder: Path) -> None:
    """A BERT of two layers with random weights, as transformers saves it."""
    pytest.importorskip("transformers")
    from tests.models.test_huggingface import SMALL, saved

    saved("Bert", "Model", SMALL, folder)


def scripted(path: Path) -> None:
    """A TorchScript whose forward takes an image and a number."""
    torch = pytest.importorskip("torch")

    class Louder(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x, rate: int):  # type: ignore[no-untyped-def]
            return torch.relu(x) * rate

    torch.jit.save(torch.jit.script(Louder()), str(path))


def tflite(path: Path) -> None:
    from tests.models.test_tflite_models import network

    path.write_bytes(network().bytes())


def paddle(folder: Path) -> None:
    """A transformer's encoder, as Paddle 3 saves it."""
    from tests.models import test_paddle

    folder.mkdir()
    networks = test_paddle.cases("networks_pir.npz", test_paddle.DATA)
    test_paddle.stored(networks["encoder"], folder)


def keras(path: Path) -> None:
    pytest.importorskip("h5py")
    from tests.models.test_keras import archive

    path.write_bytes(archive("cases")["model-sequential.keras"])


def saved_model(folder: Path) -> None:
    """An LSTM, as Keras exports it."""
    from tests.models.tensorflow_files import cases

    for name, data in cases("networks.npz")["lstm"].items():
        if name.startswith("file_"):
            path = folder / name.removeprefix("file_")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())


def mindir(path: Path) -> None:
    from tests.models.mindspore_tools import records

    path.write_bytes(records("models")["LeNet"]["model"].tobytes())


def prebuilt(folder: Path) -> None:
    """Prebuilt kernels of `network`, as a wheel brings those of all operators."""
    network(folder.with_name("model.onnx"))
    main(["prebuilt", str(folder.with_name("model.onnx")), "--only-models", "-o", str(folder)])


def answering(path: Path) -> None:
    """A decoder of random weights with a tokenizer of bytes and a chat template."""
    path.write_bytes(gguf_decoder(vocabulary=BYTE_VOCABULARY))


WRITERS: dict[str, Writer] = {
    "model.onnx": network,
    "model.gguf": answering,
    "real.npz": real,
    "yolo.onnx": yolo,
    "photo.jpg": photo,
    "decoder": decoder,
    "digits.onnx": digits,
    "digits_int8.onnx": coarse,
    "digits.npz": images,
    "labels.npy": labels,
    "resnet50.onnx": classifier,
    "better.onnx": classifier,
    **dict.fromkeys(("ears.onnx", "detector.onnx", "classifier.onnx"), network),
    "eyes.onnx": digits,
    "model.pt": scripted,
    "bert-folder": bert,
    "model.tflite": tflite,
    "ch_PP-OCRv4_det_infer": paddle,
    "model.keras": keras,
    "saved_model_folder": saved_model,
    "model.mindir": mindir,
}
"""By the names that pages have for them."""
