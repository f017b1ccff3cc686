"""Programs of users of ONNX Runtime, each with small models that are made on the spot. They import
`onnxruntime` by way of their packages, and know nothing of Infuse.

`python -m benchmarks.onnxruntime_user_programs (prepare | run) NAME FOLDER [ANSWERS.npz]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Answers = dict[str, Any]
SENTENCES: Final = (
    "a cat sat on the mat",
    "the dog sat",
    "on a mat the dog and the cat sat and sat and sat",
)
WORDS: Final = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *sorted({word for sentence in SENTENCES for word in sentence.split()}),
)


class UserProgram(NamedTuple):
    """What makes the models, and what runs them."""

    prepare: Callable[[Path], None]
    run: Callable[[Path], Answers]


# -- silero-vad ------------------------------------------------------------------------------------


def speech(rate: int) -> Any:
    """Three seconds: silence, a voice of harmonics that rises and falls, noise."""
    import torch

    rng = np.random.default_rng(0)
    time = np.arange(3 * rate) / rate
    pitch = 140 + 30 * np.sin(2 * np.pi * 0.8 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 20))
    envelope = np.clip(np.sin(np.pi * (time - 0.7) / 1.6), 0, None) * (
        0.6 + 0.4 * np.sin(2 * np.pi * 4 * time)
    )
    signal = 0.3 * voice * envelope + 0.003 * rng.standard_normal(time.size)
    return torch.from_numpy(signal.astype(np.float32))


def run_silero(folder: Path) -> Answers:
    """Chances of speech by chunks, in batches, and the marks."""
    from silero_vad import get_speech_timestamps, load_silero_vad

    answers: Answers = {}
    for opset in (15, 16):
        model = load_silero_vad(onnx=True, opset_version=opset)
        for rate, size in ((16000, 512), (8000, 256)):
            if rate not in model.sample_rates:
                continue
            audio = speech(rate)
            model.reset_states()
            chunks = [audio[i : i + size] for i in range(0, len(audio) - size + 1, size)]
            chances = [model(chunk, rate).item() for chunk in chunks]
            answers[f"{opset} {rate} chances"] = np.array(chances, np.float32)
            batch = audio[: size * 20].reshape(2, -1)
            answers[f"{opset} {rate} batch"] = model.audio_forward(batch, sr=rate).numpy()
            marks = get_speech_timestamps(audio, model, sampling_rate=rate, threshold=0.3)
            answers[f"{opset} {rate} marks"] = np.array([[m["start"], m["end"]] for m in marks])
    return answers


# -- rapidocr --------------------------------------------------------------------------------------


def run_rapidocr(folder: Path) -> Answers:
    """Three lines of text: found, turned and read."""
    import cv2
    from rapidocr import RapidOCR

    image = np.full((320, 640, 3), 255, np.uint8)
    for row, text in enumerate(("Hello World 2026", "one line changed", "Infuse 12345")):
        place = (30, 80 + 90 * row)
        cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 20), 3, cv2.LINE_AA)
    result = RapidOCR()(image)
    return {
        "boxes": np.array(result.boxes, np.float32),
        "texts": np.array(result.txts),
        "scores": np.array(result.scores, np.float32),
    }


# -- ultralytics -----------------------------------------------------------------------------------


def prepare_ultralytics(folder: Path) -> None:
    """A detector and a segmenter with random weights, exported with fixed and free sizes."""
    import torch
    from ultralytics import YOLO

    for name in ("yolov8n", "yolo11n-seg"):
        torch.manual_seed(0)
        for is_dynamic in (False, True):
            model = YOLO(f"{name}.yaml")
            model.save(folder / f"{name}.pt")
            model = YOLO(folder / f"{name}.pt")
            file = model.export(format="onnx", imgsz=160, dynamic=is_dynamic, simplify=False)
            Path(file).rename(folder / f"{name}-{'dynamic' if is_dynamic else 'fixed'}.onnx")


def run_ultralytics(folder: Path) -> Answers:
    """Metadata and outputs of every exported model; boxes come of the outputs by torch alone."""
    import torch
    from ultralytics.nn.autobackend import AutoBackend

    rng = np.random.default_rng(0)
    answers: Answers = {}
    for path in sorted(folder.glob("*.onnx")):
        backend = AutoBackend(str(path), device=torch.device("cpu"))
        answers[f"{path.stem} names"] = np.array([backend.names[i] for i in range(80)])
        answers[f"{path.stem} stride"] = np.array(backend.stride)
        rows = 2 if "dynamic" in path.stem else 1
        images = torch.from_numpy(rng.random((rows, 3, 160, 160), np.float32))
        outputs = backend(images)
        for number, output in enumerate(
            outputs if isinstance(outputs, list | tuple) else [outputs]
        ):
            answers[f"{path.stem} output {number}"] = np.asarray(output)
    return answers


# -- optimum and sentence-transformers -------------------------------------------------------------


def tokenizer(folder: Path) -> Any:
    """A tokenizer of the few words."""
    from transformers import BertTokenizerFast

    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    return BertTokenizerFast(str(folder / "vocab.txt"))


def prepare_optimum(folder: Path) -> None:
    """A classifier and a decoder with a cache, with random weights."""
    import torch
    from optimum.exporters.onnx import main_export
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        GPT2Config,
        GPT2LMHeadModel,
    )

    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS), "hidden_size": 64, "num_attention_heads": 4}
    bert = BertForSequenceClassification(
        BertConfig(**sizes, num_hidden_layers=2, intermediate_size=128, num_labels=3)
    )
    gpt = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(WORDS), n_embd=64, n_layer=2, n_head=4, n_positions=128)
    )
    for name, model, task in (
        ("bert", bert, "text-classification"),
        ("gpt2", gpt, "text-generation-with-past"),
    ):
        source = folder / f"{name}-torch"
        model.save_pretrained(source)
        tokenizer(source).save_pretrained(source)
        main_export(str(source), folder / name, task=task, do_validation=False)


def run_optimum(folder: Path) -> Answers:
    """Both models, with arrays and with bound memory; the decoder writes 20 tokens."""
    from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSequenceClassification

    encode = tokenizer(folder / "words")
    answers: Answers = {}
    for use_binding in (False, True):
        classifier = ORTModelForSequenceClassification.from_pretrained(
            folder / "bert", use_io_binding=use_binding
        )
        inputs = encode(list(SENTENCES), return_tensors="pt", padding=True)
        answers[f"bert {use_binding}"] = classifier(**inputs).logits.numpy()
        numbers = encode(list(SENTENCES), return_tensors="np", padding=True)
        if not use_binding:
            answers["bert of arrays"] = classifier(**numbers).logits
        writer = ORTModelForCausalLM.from_pretrained(
            folder / "gpt2", use_io_binding=use_binding, use_cache=True
        )
        start = encode(SENTENCES[0], return_tensors="pt", add_special_tokens=False)
        step = writer(**start)
        answers[f"gpt2 {use_binding}"] = step.logits.detach().numpy()
        written = writer.generate(
            input_ids=start["input_ids"],
            attention_mask=start["attention_mask"],
            max_new_tokens=20,
            do_sample=False,
            pad_token_id=0,
        )
        answers[f"gpt2 written {use_binding}"] = written.numpy()
    return answers


def prepare_sentences(folder: Path) -> None:
    """A model of sentences with random weights, exported by sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS), "hidden_size": 64, "num_attention_heads": 4}
    source = folder / "bert"
    BertModel(BertConfig(**sizes, num_hidden_layers=2, intermediate_size=128)).save_pretrained(
        source
    )
    tokenizer(source).save_pretrained(source)
    words = Transformer(str(source))
    model = SentenceTransformer(modules=[words, Pooling(64)], device="cpu")
    model.save_pretrained(str(folder / "model"))
    exported = SentenceTransformer(str(folder / "model"), backend="onnx", device="cpu")
    exported.save_pretrained(str(folder / "model"))


def run_sentences(folder: Path) -> Answers:
    """Vectors of the sentences."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(folder / "model"),
        backend="onnx",
        device="cpu",
        model_kwargs={"provider": "CPUExecutionProvider", "file_name": "onnx/model.onnx"},
    )
    vectors = model.encode(list(SENTENCES), normalize_embeddings=True)
    return {"vectors": vectors, "likeness": np.asarray(model.similarity(vectors, vectors))}


def nothing(folder: Path) -> None:
    """The models lie inside of the package."""


PROGRAMS: Final = {
    "silero-vad": UserProgram(nothing, run_silero),
    "rapidocr": UserProgram(nothing, run_rapidocr),
    "ultralytics": UserProgram(prepare_ultralytics, run_ultralytics),
    "optimum": UserProgram(prepare_optimum, run_optimum),
    "sentence-transformers": UserProgram(prepare_sentences, run_sentences),
}


def main(task: str, name: str, folder: str, output: str = "") -> None:
    """Prepare or run one program."""
    program = PROGRAMS[name]
    if task == "prepare":
        program.prepare(Path(folder))
        return
    import onnxruntime

    np.savez(output, build=onnxruntime.get_build_info(), **program.run(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
