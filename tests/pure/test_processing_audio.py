"""Sound as a part of the model, beside PyTorch, SciPy and transformers."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.signal

from infuse import processing
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate
from tests.pure.traced_blocks import close, everywhere, traced

pytestmark = pytest.mark.row("C10")

RNG = np.random.default_rng(5)
SOUND = RNG.normal(0, 0.3, (2, 700)).astype(np.float32)
ONE = np.float32([[0.25]])
# -- windows and frames ----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7, 400])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(length: int, periodic: bool) -> None:
    torch = pytest.importorskip("torch")
    for name in ("hann", "hamming", "blackman"):
        make = getattr(torch, f"{name}_window")
        right = make(length, periodic=periodic, dtype=torch.float64).numpy()
        result = processing.window(name, length, periodic=periodic)
        np.testing.assert_allclose(result, right, atol=1e-14)
    np.testing.assert_array_equal(processing.window("rectangular", length), np.ones(length))


def test_the_window_of_kaldi() -> None:
    utils = pytest.importorskip("transformers.audio_utils")
    right = utils.window_function(400, "povey", periodic=False)
    result = processing.window("povey", 400, periodic=False)
    np.testing.assert_allclose(result, right, atol=1e-14)


@pytest.mark.parametrize(("length", "step"), [(8, 3), (700, 1), (701, 5), (1, 1), (1, 900)])
def test_frames(length: int, step: int) -> None:
    result = everywhere(lambda x: processing.frames(x, length, step), SOUND)
    if length > SOUND.shape[1]:
        assert result.shape == (2, 0, length)
        return
    right = np.lib.stride_tricks.sliding_window_view(SOUND, length, axis=1)[:, ::step]
    np.testing.assert_array_equal(result, right)


def test_preemphasis() -> None:
    right = scipy.signal.lfilter([1, -0.9], [1], SOUND.astype(np.float64))
    close(everywhere(lambda x: processing.preemphasis(x, 0.9), SOUND), right)
    np.testing.assert_array_equal(everywhere(processing.preemphasis, ONE), ONE)
    assert everywhere(processing.preemphasis, SOUND[:, :0]).shape == (2, 0)


# -- Fourier transforms ----------------------------------------------------------------------------

TRANSFORMS: list[dict[str, Any]] = [
    {"n_fft": 64},
    {"n_fft": 64, "hop_length": 10, "win_length": 40, "window": "hamming"},
    {"n_fft": 50, "hop_length": 25, "pad_mode": "constant", "normalized": True},
    {"n_fft": 31, "hop_length": 7, "pad_mode": "replicate"},
    {"n_fft": 64, "hop_length": 16, "pad_mode": "circular", "onesided": False},
    {"n_fft": 700, "hop_length": 1, "center": False},
]


def by_torch(torch: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options in PyTorch's words."""
    size = options.get("win_length", options["n_fft"])
    window = getattr(torch, f"{options.get('window', 'hann')}_window")(size, dtype=torch.float64)
    return {**options, "window": window}


def inverse(length: int | None, options: dict[str, Any], spectra: Any) -> Any:
    return processing.istft(spectra, **options, length=length)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@pytest.mark.parametrize("options", TRANSFORMS, ids=str)
def test_transforms_of_frames_and_back(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    right = torch.stft(
        torch.tensor(SOUND, dtype=torch.float64), **by_torch(torch, options), return_complex=True
    )
    result = everywhere(lambda x: processing.stft(x, **options), SOUND)
    close(result, torch.view_as_real(right))
    exact = processing.stft(SOUND.astype(np.float64), **options)
    close(exact, torch.view_as_real(right), 1e-13)
    back = {k: v for k, v in options.items() if k != "pad_mode"}
    if not options.get("center", True):
        return  # its Hann window leaves the first sample uncovered, which PyTorch refuses
    for length in (None, 650, 720):
        again = torch.istft(right, **by_torch(torch, back), length=length)
        signals = everywhere(partial(inverse, length, back), result, keep=(1, 3))
        close(signals, again, 1e-5)


def thirty_two(x: Any) -> Any:
    return processing.stft(x, 32)


def test_signals_without_a_batch_and_of_channels() -> None:
    many = RNG.normal(size=(2, 3, 200))
    result = everywhere(thirty_two, many)
    assert result.shape == (2, 3, 17, 26, 2)
    np.testing.assert_allclose(everywhere(thirty_two, many[1, 2]), result[1, 2], atol=1e-12)
    back = everywhere(lambda z: processing.istft(z, 32), result, keep=(2, 4))
    np.testing.assert_allclose(back, many[..., :200], atol=1e-12)
    assert thirty_two(np.zeros((0, 200), np.float32)).shape == (0, 17, 26, 2)
    empty = np.zeros((0, 17, 26, 2), np.float32)
    assert everywhere(lambda z: processing.istft(z, 32), empty, keep=(1, 3)).shape == (0, 200)


def test_what_no_window_covers_is_zero() -> None:
    z = processing.stft(SOUND, 64, hop_length=64, center=False)
    back = everywhere(
        lambda z: processing.istft(z, 64, hop_length=64, center=False), z, keep=(1, 3)
    )
    np.testing.assert_array_equal(back[:, ::64], 0)
    near = np.abs(processing.window("hann", 64)) > 0.05
    np.testing.assert_allclose(back[:, :64][:, near], SOUND[:, :64][:, near], atol=1e-5)


def test_a_window_of_ones_own_agrees_with_scipy() -> None:
    window = RNG.uniform(0.1, 1, 48)
    theirs = {"nperseg": 48, "noverlap": 36, "boundary": None, "padded": False}
    _, _, right = scipy.signal.stft(SOUND.astype(np.float64), window=window, **theirs)
    options = {"hop_length": 12, "window": window, "center": False}
    result = everywhere(lambda x: processing.stft(x, 48, **options), SOUND)
    right = right * window.sum()
    close(result, np.stack([right.real, right.imag], axis=-1))


@pytest.mark.parametrize("power", [1.0, 2.0, 0.5])
def test_spectrograms(power: float) -> None:
    z = processing.stft(SOUND.astype(np.float64), 64)
    right = np.abs(z[..., 0] + 1j * z[..., 1]) ** power
    close(everywhere(lambda x: processing.spectrogram(x, 64, power=power), SOUND), right, 1e-5)


# -- rates -----------------------------------------------------------------------------------------


def resampled(x: Any, old: int, new: int, method: str, zeros: int = 6) -> Any:
    """Every sample as a sum over all others, as the formula says."""
    rate = 0.99 * min(old, new)
    result = np.zeros(-(-len(x) * new // old))
    for place in range(len(result)):
        t = (np.arange(len(x)) / old - place / new) * rate
        near = np.abs(t) < zeros
        ratio = t[near] / zeros
        weight = np.cos(np.pi * ratio / 2) ** 2
        if method == "kaiser":
            beta = 14.769656459379492
            weight = np.i0(beta * np.sqrt(1 - ratio**2)) / np.i0(beta)
        result[place] = (x[near] * np.sinc(t[near]) * weight).sum() * rate / old
    return result


@pytest.mark.parametrize("method", ["hann", "kaiser"])
@pytest.mark.parametrize(("old", "new"), [(3, 2), (2, 3), (441, 160), (8000, 16000), (5, 1)])
def test_other_rates(old: int, new: int, method: str) -> None:
    x = SOUND.astype(np.float64)
    right = np.stack([resampled(row, old, new, method) for row in x])
    result = everywhere(lambda x: processing.resample(x, old, new, method=method), x)
    np.testing.assert_allclose(result, right, atol=1e-12)
    close(processing.resample(SOUND, old, new, method=method), right)


def test_a_sine_stays_one_at_another_rate() -> None:
    seconds = 0.25
    old, new = (
        np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate) for rate in (44100, 16000)
    )
    result = processing.resample(old, 44100, 16000)
    np.testing.assert_allclose(result[50:-50], new[50:-50], atol=1e-3)
    np.testing.assert_array_equal(processing.resample(old, 8000, 8000), old)
    assert everywhere(lambda x: processing.resample(x, 44100, 16000), ONE).shape == (1, 1)
    assert everywhere(lambda x: processing.resample(x, 3, 2), SOUND[:, :0]).shape == (2, 0)


# -- bad arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: processing.window("hat", 4), "no window 'hat'"),
        (lambda x: processing.window("hann", 0), "`length` is 0"),
        (lambda x: processing.frames(x, 4, 0), "`step` is 0"),
        (lambda x: processing.frames(x[0, 0], 4, 1), "no axis"),
        (lambda x: processing.stft(x.astype(np.int16), 64), "samples are floats, not int16"),
        (lambda x: processing.stft(x, 0), "`n_fft` is 0"),
        (lambda x: processing.stft(x, 64, hop_length=-1), "`hop_length` is -1"),
        (lambda x: processing.stft(x, 64, win_length=65), "a window of 65 samples"),
        (lambda x: processing.stft(x, 64, window=np.ones(65)), "a window of 65 samples"),
        (lambda x: processing.stft(x, 64, window=np.ones((8, 8))), "a window of None samples"),
        (lambda x: processing.stft(x, 64, pad_mode="mirror"), "no padding 'mirror'"),
        (lambda x: processing.stft(x[:, :32], 64), "32 samples cannot be continued"),
        (lambda x: processing.stft(x, 701, center=False), "700 samples are not a frame of 701"),
        (lambda x: processing.istft(x, 64), "spectra are"),
        (lambda x: processing.istft(np.ones((1, 32, 3, 2)), 64), "spectra are .*33"),
        (lambda x: processing.spectrogram(x, 64, power=0.0), "`power` is 0"),
        (lambda x: processing.resample(x, 0, 1), "`rate` is 0"),
        (lambda x: processing.resample(x, 1, 2.5), "`new_rate` is 2.5"),  # type: ignore[arg-type]
        (lambda x: processing.resample(x, 1, 2, method="cubic"), "no method 'cubic'"),
        (lambda x: processing.resample(x, 1, 2, rolloff=2.0), "`rolloff` is 2"),
        (lambda x: processing.resample(x, 1_000_003, 999_983), "a larger common divisor"),
    ],
)
def test_bad_arguments_are_told(call: Any, what: str) -> None:
    with pytest.raises(InfuseError, match=what):
        call(SOUND)


def test_a_signal_that_turns_out_too_short_fails() -> None:
    graph = traced(lambda x: processing.stft(x, 64, center=False), [SOUND], ())
    with pytest.raises(InfuseError):
        evaluate(graph, {"x": SOUND[:, :32]})
