"""Mel spectra as models of speech take them, beside the feature extractors of transformers."""

from typing import Any

import numpy as np
import pytest
import scipy.fft

from infuse import processing
from infuse.errors import InfuseError
from tests.pure.traced_blocks import close, everywhere, traced

pytestmark = pytest.mark.row("C10")

RNG = np.random.default_rng(5)
SOUND = RNG.normal(0, 0.3, (2, 700)).astype(np.float32)
ONE = np.float32([[0.25]])
WHISPER = 2e-5
"""Absolute: single mels have a thousandth of the energy around them, which is summed in float32."""


# -- mel -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize("norm", ["slaney", None])
@pytest.mark.parametrize("limits", [(0.0, 8000.0), (125.0, 3800.0)])
def test_mel_filters(scale: str, norm: str | None, limits: tuple[float, float]) -> None:
    utils = pytest.importorskip("transformers.audio_utils")
    right = utils.mel_filter_bank(201, 40, *limits, 16000, norm=norm, mel_scale=scale)
    result = processing.mel_filters(
        16000, 400, 40, f_min=limits[0], f_max=limits[1], mel_scale=scale, norm=norm
    )
    np.testing.assert_allclose(result, right, atol=1e-12)


def test_a_sine_is_in_the_mel_of_its_frequency() -> None:
    time = np.arange(8000) / 16000
    filters = processing.mel_filters(16000, 512, 40)
    for hertz in (300, 1000, 4000):
        mels = everywhere(
            lambda x: processing.mel_spectrogram(x, 16000, 512, n_mels=40),
            np.sin(2 * np.pi * hertz * time)[None],
        )
        expected = filters[round(hertz * 512 / 16000)].argmax()
        assert abs(int(mels[0, :, 20].argmax()) - expected) <= 1


def test_decibels() -> None:
    utils = pytest.importorskip("transformers.audio_utils")
    x = np.abs(RNG.normal(size=(2, 5, 6))).astype(np.float32) ** 8
    for options, theirs in (
        ({}, {"db_range": 80.0}),
        ({"top_db": 30.0, "ref": 2.5}, {"db_range": 30.0, "reference": 2.5}),
        ({"top_db": None, "amin": 1e-3}, {"min_value": 1e-3}),
    ):
        for name in ("power_to_db", "amplitude_to_db"):
            call = getattr(processing, name)
            theirs = {"min_value": {"p": 1e-10, "a": 1e-5}[name[0]], **theirs}
            right = np.stack([getattr(utils, name)(one, **theirs) for one in x])
            close(everywhere(lambda x, c=call, o=options: c(x, **o), x), right)  # type: ignore[misc]
    most = everywhere(lambda x: processing.power_to_db(x, ref="max"), x)
    np.testing.assert_allclose(most.max(axis=(1, 2)), 0, atol=1e-6)
    np.testing.assert_array_equal(processing.power_to_db(np.zeros((3, 4))), np.full((3, 4), -100))


@pytest.mark.parametrize("lifter", [0, 22])
def test_cepstra(lifter: int) -> None:
    levels = RNG.normal(size=(2, 40, 7))
    right = scipy.fft.dct(levels, axis=1, norm="ortho")[:, :13]
    if lifter:
        right = right * (1 + 11 * np.sin(np.pi * np.arange(1, 14) / 22))[:, None]
    result = everywhere(lambda x: processing.mfcc(x, 13, lifter=lifter), levels, keep=(1,))
    np.testing.assert_allclose(result, right, atol=1e-12)


# -- what models take ------------------------------------------------------------------------------


def whisper(sounds: list[Any], **options: Any) -> Any:
    extractors = pytest.importorskip("transformers")
    extractor = extractors.WhisperFeatureExtractor(**options)
    # In NumPy, in float64: its path by PyTorch lies 8e-7 from it.
    length = extractor.n_samples
    rows = [np.pad(x[:length], (0, max(0, length - len(x)))) for x in sounds]
    return np.stack([extractor._np_extract_fbank_features(x[None], "cpu")[0] for x in rows])


@pytest.mark.parametrize("size", [1, 160, 16000, 64000, 70000])
def test_whisper(size: int) -> None:
    x = RNG.normal(0, 0.1, (2, size)).astype(np.float32)
    result = everywhere(lambda x: processing.whisper_log_mel(x, seconds=4.0), x)
    assert result.shape == (2, 80, 400)
    np.testing.assert_allclose(result, whisper(list(x), chunk_length=4), atol=WHISPER)


def test_whisper_of_thirty_seconds_and_more_mels() -> None:
    x = RNG.normal(0, 0.1, 500_000).astype(np.float32)
    result = processing.whisper_log_mel(x, n_mels=128)
    assert result.shape == (128, 3000)
    np.testing.assert_allclose(result, whisper([x], feature_size=128)[0], atol=WHISPER)


def test_whisper_of_silence_and_of_what_is_no_number() -> None:
    x = np.zeros((3, 4000), np.float32)
    x[1, 7] = np.nan
    x[2] = SOUND[0, 0]
    result = everywhere(lambda x: processing.whisper_log_mel(x, seconds=1.0), x)
    right = whisper(list(x), chunk_length=1)
    np.testing.assert_allclose(result[[0, 2]], right[[0, 2]], atol=WHISPER)
    np.testing.assert_array_equal(result[0], np.float32(-1.5))  # (log10(1e-10) + 4) / 4
    assert np.isnan(result[1]).all()
    assert processing.whisper_log_mel(x[:0], seconds=1.0).shape == (0, 80, 100)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_kaldi(power: float) -> None:
    utils = pytest.importorskip("transformers.audio_utils")
    x = RNG.normal(0, 100, (2, 4000)) + 50
    filters = utils.mel_filter_bank(
        257, 23, 20.0, 8000.0, 16000, mel_scale="kaldi", triangularize_in_mel_space=True
    )
    window = utils.window_function(400, "povey", periodic=False)
    options = {"power": power, "center": False, "preemphasis": 0.97, "remove_dc_offset": True}
    options |= {"mel_filters": filters, "log_mel": "log", "mel_floor": 1.192092955078125e-07}
    right = np.stack(
        [utils.spectrogram(row, window, 400, 160, fft_length=512, **options).T for row in x]
    )
    result = everywhere(lambda x: processing.kaldi_fbank(x, n_mels=23, power=power), x)
    np.testing.assert_allclose(result, right, atol=1e-5)
    single = processing.kaldi_fbank(x.astype(np.float32), n_mels=23, power=power)
    np.testing.assert_allclose(single, right, atol=1e-3)


def test_kaldi_beyond_the_edges_and_energies() -> None:
    """Kaldi mirrors the signal at its ends, and has a frame for each shift of it."""
    for size in (400, 639, 1600):
        x = RNG.normal(size=(1, size))
        mirrored = np.pad(x, [(0, 0), (120, 400)], mode="symmetric")
        count = (size + 80) // 160
        right = processing.kaldi_fbank(mirrored)[:, :count]
        result = everywhere(lambda x: processing.kaldi_fbank(x, snip_edges=False), x)
        np.testing.assert_allclose(result, right, atol=1e-9)
    with_energy = everywhere(lambda x: processing.kaldi_fbank(x, use_energy=True, f_max=-400), x)
    frames = processing.frames(x, 400, 160)
    energy = ((frames - frames.mean(-1, keepdims=True)) ** 2).sum(-1)
    np.testing.assert_allclose(with_energy[..., 0], np.log(energy), atol=1e-9)
    plain = processing.kaldi_fbank(x, f_max=7600.0)
    np.testing.assert_allclose(with_energy[..., 1:], plain, atol=1e-12)
    still = processing.kaldi_fbank(np.zeros((1, 400)), use_energy=True)
    np.testing.assert_allclose(still[..., 0], 0)  # the floor is an energy of 1
    np.testing.assert_allclose(still[..., 1:], np.log(np.finfo(np.float32).eps))
    assert processing.kaldi_fbank(ONE).shape == (1, 0, 80)
    assert everywhere(lambda x: processing.kaldi_fbank(x, snip_edges=False), ONE).shape == (
        1,
        0,
        80,
    )


def test_nemo() -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    extractor = transformers.ParakeetFeatureExtractor()
    sounds = [RNG.normal(0, 0.1, size).astype(np.float32) for size in (9000, 5000, 600)]
    right = extractor(sounds, sampling_rate=16000, return_tensors="np")["input_features"]
    # What lies behind a sound does not count.
    x = np.full((3, 9000), 9, np.float32)
    for row, sound in zip(x, sounds):
        row[: len(sound)] = sound
    lengths = np.array([9000, 5000, 600])
    result = everywhere(processing.nemo_log_mel, x, lengths)
    np.testing.assert_allclose(result, right.swapaxes(1, 2), atol=2e-3)
    alone = everywhere(lambda x: processing.nemo_log_mel(x), sounds[1][None])
    np.testing.assert_allclose(alone[0, :, :31], result[1, :, :31], atol=2e-3)
    levels = processing.nemo_log_mel(np.zeros((1, 600), np.float32), normalize=False)
    np.testing.assert_allclose(levels, np.log(2.0**-24), rtol=1e-6)
    assert not processing.nemo_log_mel(x[:1], np.array([0])).any()


# -- bad arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: processing.mel_filters(16000, 400, mel_scale="bark"), "no mel scale 'bark'"),
        (lambda x: processing.mel_filters(16000, 400, norm="area"), "`norm` is 'area'"),
        (lambda x: processing.mel_filters(16000, 400, f_max=9000), "to 9000 Hz"),
        (lambda x: processing.mel_filters(16000, 400, 0), "0 filters"),
        (lambda x: processing.power_to_db(x, ref="mean"), "`ref` is 'mean'"),
        (lambda x: processing.power_to_db(x, amin=0.0), "`amin` is 0"),
        (lambda x: processing.amplitude_to_db(x, top_db=-1.0), "`top_db` is -1"),
        (lambda x: processing.power_to_db(x[0]), "two axes"),
        (lambda x: processing.whisper_log_mel(x, seconds=0.01), "`seconds` is 0.01"),
        (lambda x: processing.kaldi_fbank(x, 16), "frames of 0 samples"),
        (lambda x: processing.kaldi_fbank(x, preemphasis=2.0), "`preemphasis` is 2"),
        (lambda x: processing.nemo_log_mel(x[0]), r"\[batch, samples\]"),
        (lambda x: processing.mfcc(x, 3000), "3000 coefficients of 2 mels"),
        (lambda x: processing.mfcc(x[0]), "levels are"),
    ],
)
def test_bad_arguments_are_told(call: Any, what: str) -> None:
    with pytest.raises(InfuseError, match=what):
        call(SOUND)


def test_mels_of_no_certain_number_are_refused() -> None:
    with pytest.raises(InfuseError, match="levels are"):
        traced(lambda x: processing.mfcc(x), [SOUND], ())
