"""Sound, sequences and text as parts of compiled models, for any sizes of one compilation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import processing
from infuse.errors import RuntimeFailure
from infuse.ops.core.evaluate import evaluate
from infuse.ops.tokens import sample_tokenizer

pytestmark = pytest.mark.row("C10")

RNG = np.random.default_rng(3)
WORDS = sample_tokenizer().encode()


def compiled(function: Callable[..., Any], **specs: Any) -> tuple[Any, Any]:
    """The graph of a function for these types and shapes, and the model."""
    graph = infuse.trace(function, {name: infuse.Spec(*spec) for name, spec in specs.items()})
    return graph, infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=2))


def check(graph: Any, model: Any, tolerance: float, **feeds: Any) -> dict[str, Any]:
    """What a model gives, which is what the interpreter gives within a part of its largest."""
    results = model.run(feeds)
    for name, right in evaluate(graph, feeds).items():
        assert results[name].shape == right.shape
        assert results[name].dtype == right.dtype
        if right.dtype.kind != "f":
            np.testing.assert_array_equal(results[name], right)
            continue
        largest = np.abs(right[np.isfinite(right)]).max(initial=1)
        np.testing.assert_allclose(results[name], right, rtol=0, atol=tolerance * largest)
    return dict(results)


def test_what_models_of_speech_take() -> None:
    def features(samples: Any) -> dict[str, Any]:
        mels = processing.mel_spectrogram(samples, 16000, 256, n_mels=40)
        return {
            "whisper": processing.whisper_log_mel(samples, seconds=1.0),
            "kaldi": processing.kaldi_fbank(samples, use_energy=True),
            "edges": processing.kaldi_fbank(samples, snip_edges=False),
            "nemo": processing.nemo_log_mel(samples),
            "cepstra": processing.mfcc(processing.power_to_db(mels), 13),
        }

    graph, model = compiled(features, samples=("float32", ("batch", "n")))
    with model:
        assert not getattr(model, "host_steps", ())
        for batch, size in ((1, 16000), (3, 2000), (2, 20000), (2, 399), (1, 257)):
            x = RNG.normal(0, 0.3, (batch, size)).astype(np.float32)
            # Logarithms of energies that cancelled in float32.
            check(graph, model, 1e-4, samples=x)
        silence = check(graph, model, 1e-5, samples=np.zeros((2, 900), np.float32))
        np.testing.assert_allclose(silence["whisper"], -1.5, rtol=1e-6)  # (log10(1e-10) + 4) / 4
        assert check(graph, model, 0, samples=x[:0])["whisper"].shape == (0, 80, 100)
        x = np.zeros((2, 900), np.float32)
        x[0, 500] = np.nan
        spoilt = model.run({"samples": x})
        assert np.isnan(spoilt["whisper"][0]).all()
        np.testing.assert_allclose(spoilt["whisper"][1], -1.5, rtol=1e-6)


def test_transforms_of_frames_and_back() -> None:
    def program(samples: Any) -> dict[str, Any]:
        z = processing.stft(samples, 64, hop_length=20, win_length=50, pad_mode="constant")
        options = {"hop_length": 20, "win_length": 50}
        return {
            "spectra": z,
            "again": processing.istft(z, 64, **options),
            "long": processing.istft(z, 64, length=500, **options),
            "rate": processing.resample(samples, 3, 2),
            "even": processing.preemphasis(samples),
        }

    graph, model = compiled(program, samples=("float32", ("batch", "channels", "n")))
    with model:
        assert not getattr(model, "host_steps", ())
        for shape in ((1, 1, 64), (2, 3, 1000), (1, 2, 1), (1, 1, 19), (0, 2, 100)):
            x = RNG.normal(size=shape).astype(np.float32)
            results = check(graph, model, 4e-6, samples=x)
            whole = shape[2] // 20 * 20
            if whole >= 64:
                np.testing.assert_allclose(results["again"], x[..., :whole], atol=1e-5)


def test_reflected_signals_that_are_too_short_for_it() -> None:
    graph, model = compiled(
        lambda samples: processing.stft(samples, 64), samples=("float32", ("n",))
    )
    with model:
        check(graph, model, 4e-6, samples=RNG.normal(size=33).astype(np.float32))
        for size in (1, 5, 32):
            check(graph, model, 4e-6, samples=RNG.normal(size=size).astype(np.float32))


def test_sequences() -> None:
    moves, start = RNG.normal(size=(5, 5)), RNG.normal(size=5)

    def program(scores: Any, lengths: Any) -> dict[str, Any]:
        names = ("labels", "counts", "scores")
        greedy = processing.ctc_greedy(scores, lengths)
        beams = processing.ctc_beam_search(scores, lengths, beams=7, blank=4)
        path, total = processing.viterbi(scores, moves, start, start, lengths)
        return {
            **{f"greedy_{name}": part for name, part in zip(names, greedy)},
            **{f"beam_{name}": part for name, part in zip(names, beams)},
            "path": path,
            "total": total,
        }

    scores = ("float32", ("batch", "time", 5))
    graph, model = compiled(program, scores=scores, lengths=("int64", ("batch",)))
    with model:
        assert not getattr(model, "host_steps", ())
        for batch, time in ((1, 1), (3, 30), (5, 2), (2, 0), (0, 4)):
            x = np.log(RNG.dirichlet(np.ones(5), (batch, time))).astype(np.float32)
            for lengths in (np.full(batch, time), RNG.integers(0, time + 1, batch)):
                check(graph, model, 2e-6, scores=x, lengths=lengths)
        x = np.full((2, 4, 5), -9, np.float32)
        x[..., 0] = 0
        blanks = check(graph, model, 2e-6, scores=x, lengths=np.array([4, 3]))
        assert (blanks["greedy_labels"] == -1).all()
        x[0, 1] = np.nan
        spoilt = model.run({"scores": x, "lengths": np.array([4, 3])})
        assert np.isnan(spoilt["greedy_scores"][0])
        for name in ("greedy_labels", "greedy_scores", "path"):
            np.testing.assert_array_equal(spoilt[name][1], blanks[name][1])


def test_tokens_are_chosen_and_generated() -> None:
    words, cells = RNG.normal(size=(9, 6)).astype(np.float32), RNG.normal(size=(6, 6))
    out = RNG.normal(size=(6, 9)).astype(np.float32)

    def step(token: Any, state: Any) -> Any:
        xp = token.__array_namespace__()
        h = xp.tanh(state[0] @ cells.astype(np.float32) + xp.take(xp.asarray(words), token, axis=0))
        return h @ out, (h,)

    def program(prompt: Any, uniform: Any) -> dict[str, Any]:
        xp = prompt.__array_namespace__()
        state = (xp.zeros((prompt.shape[0], 6), dtype=xp.float32),)
        options = {"top_k": 5, "top_p": 0.9, "temperature": 1.7, "repetition_penalty": 1.2}
        return {
            "best": processing.generate(step, prompt, state, most=8, end=2),
            "random": processing.generate(
                step, prompt, state, most=8, end=2, uniform=uniform, **options
            ),
        }

    graph, model = compiled(
        program, prompt=("int64", ("batch", "length")), uniform=("float32", ("batch", 8))
    )
    with model:
        assert not getattr(model, "host_steps", ())
        for batch, length in ((1, 1), (4, 3), (2, 9), (0, 2)):
            prompt = RNG.integers(0, 9, (batch, length))
            check(graph, model, 0, prompt=prompt, uniform=RNG.random((batch, 8), np.float32))


def test_texts(tmp_path: Any) -> None:
    pytest.importorskip("tokenizers")

    def program(text: Any) -> dict[str, Any]:
        ids, mask, kinds = processing.tokenize(text, tokenizer=WORDS, pad_token="[PAD]")
        xp = mask.__array_namespace__()
        return {
            "ids": ids,
            "kinds": kinds,
            "count": xp.sum(mask, axis=1) * 2,
            "again": processing.detokenize(ids + 0, tokenizer=WORDS),
        }

    graph, model = compiled(program, text=("string", ("batch",)))
    model.save(tmp_path / "folder")
    with model, infuse.load_compiled(tmp_path / "folder") as loaded:
        assert sorted(step.split()[0] for step in model.host_steps) == ["Detokenize", "Tokenize"]
        for texts in (["The cat", "sat", ""], ["cats 猫 sat"], []):
            x = np.array(texts, dtype=object)
            results = check(graph, model, 0, text=x)
            check(graph, loaded, 0, text=x)
            expected = [text.lower() for text in texts]
            assert results["again"].tolist() == expected
        assert check(graph, loaded, 0, text=np.array(["sat", "cats"]))["count"].tolist() == [6, 8]
        for name in ("texts.infuse", "texts.onnx"):
            infuse.save(graph, tmp_path / name)
            session = infuse.InferenceSession(tmp_path / name)
            assert session.get_inputs()[0].type == "tensor(string)"
            (ids,) = session.run(["ids"], {"text": np.array(["sat", "the cat"])})
            assert ids.tolist() == [[2, 6, 3, 0], [2, 4, 5, 3]]
        with pytest.raises(RuntimeFailure, match="element 0: it is not UTF-8"):
            loaded.run({"text": np.array([b"\xff", b"a"], dtype=object)})
