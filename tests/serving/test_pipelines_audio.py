"""Sounds from bytes, held against the standard library's writer, soundfile, and SciPy's
resampling.
"""

from __future__ import annotations

import io
import math
import struct
import sys
import wave
from typing import Any

import numpy as np
import pytest
from scipy import signal

from infuse.errors import ConfigurationError, RequestError, TooLargeError
from infuse.serving.engine.pipelines.builtins import create
from infuse.serving.engine.pipelines.resampling import MOST_TERMS, resample
from infuse.serving.engine.pipelines.steps import Builtin

pytestmark = pytest.mark.row("S1")

NAMES = {"samples", "lengths", "rates"}


def built(**options: Any) -> Builtin:
    return create("decode_audio", options, (), "step 1")


def decode(*files: bytes, **options: Any) -> dict[str, Any]:
    data = np.empty(len(files), object)
    data[:] = files
    return built(**options).run({"audio": data}, NAMES)


def integers(samples: Any, bits: int, rate: int = 8000) -> bytes:
    """A WAV file of integers, by the standard library; samples are [frames, channels]."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(samples.shape[1])
        writer.setsampwidth(bits // 8)
        writer.setframerate(rate)
        flat = samples.reshape(-1)
        if bits == 8:
            body = (flat + 128).astype(np.uint8).tobytes()
        else:
            body = b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in flat)
        writer.writeframes(body)
    return file.getvalue()


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(
        name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
        for name, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def form(kind: int, channels: int, rate: int, bits: int, more: bytes = b"") -> bytes:
    frame = (bits + 7) // 8 * channels
    return struct.pack("<HHIIHH", kind, channels, rate, rate * frame % 2**32, frame, bits) + more


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_integers_of_all_widths(bits: int, channels: int, rng: np.random.Generator) -> None:
    top = 2 ** (bits - 1)
    samples = rng.integers(-top, top, (50, channels))
    samples[:2, 0] = [-top, top - 1]
    found = decode(integers(samples, bits), mono=False)
    np.testing.assert_allclose(found["samples"][0], (samples / top).T, rtol=1e-7, atol=0)
    assert found["samples"].dtype == np.float32
    assert found["lengths"].tolist() == [50]
    assert found["rates"].tolist() == [8000]
    mixed = decode(integers(samples, bits))["samples"][0]
    np.testing.assert_allclose(mixed, (samples / top).mean(1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("extensible", [False, True])
def test_floats_and_other_chunks(dtype: str, extensible: bool, rng: np.random.Generator) -> None:
    samples = rng.standard_normal((31, 2)).astype(dtype)
    bits = samples.itemsize * 8
    if extensible:
        more = (
            struct.pack("<HHI", 22, bits, 3)
            + struct.pack("<H", 3)
            + b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
        )
        head = form(0xFFFE, 2, 16000, bits, more)
    else:
        head = form(3, 2, 16000, bits)
    file = riff(
        (b"LIST", b"odd"),
        (b"fmt ", head),
        (b"fact", b"\0" * 4),
        (b"data", samples.tobytes()),
        (b"end ", b""),
    )
    np.testing.assert_array_equal(
        decode(file, mono=False)["samples"][0], samples.T.astype(np.float32)
    )


def test_a_stream_of_unknown_length_is_read() -> None:
    file = bytearray(integers(np.arange(40)[:, None], 16))
    at = file.index(b"data") + 4
    file[at : at + 4] = b"\xff\xff\xff\xff"
    np.testing.assert_allclose(decode(bytes(file))["samples"][0] * 32768, np.arange(40))


def test_several_sounds_are_filled_up_with_silence() -> None:
    long, short = integers(np.full((9, 1), 64), 8), integers(np.full((4, 1), -64), 8)
    found = decode(long, short)
    assert found["samples"].tolist() == [[0.5] * 9, [-0.5] * 4 + [0] * 5]
    assert found["lengths"].tolist() == [9, 4]
    found = decode(long, short, samples=6)
    assert found["samples"].tolist() == [[0.5] * 6, [-0.5] * 4 + [0] * 2]
    assert found["lengths"].tolist() == [6, 4]
    assert decode()["samples"].shape == (0, 0)
    assert decode(samples=7, mono=False)["samples"].shape == (0, 1, 7)
    with pytest.raises(
        RequestError, match=r"element 1 of input 'audio'.*the first has 1, this one 2"
    ):
        decode(long, integers(np.zeros((3, 2)), 16), mono=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [(44100, 16000), (48000, 16000), (16000, 48000), (8000, 16000), (22050, 16000), (16000, 11025)],
)
@pytest.mark.parametrize("frames", [1, 2, 777, 4000])
def test_scipy_resamples_the_same(
    old: int, new: int, frames: int, rng: np.random.Generator
) -> None:
    sound = rng.standard_normal((frames, 2))
    common = math.gcd(old, new)
    up, down = new // common, old // common
    most = max(up, down)
    filter = signal.firwin(64 * most + 1, 1 / most, window=("kaiser", 9.0))
    expected = signal.resample_poly(sound, up, down, axis=0, window=filter)
    found = resample(sound, old, new)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new"), [(44100, 16000), (48000, 16000), (16000, 48000), (8000, 11025)]
)
def test_tones_stay_and_aliases_go(old: int, new: int) -> None:
    time = np.arange(old) / old
    edge = new // 20
    middle = slice(edge, -edge)
    tone = np.sin(2 * np.pi * 997 * time)[:, None]
    expected = np.sin(2 * np.pi * 997 * np.arange(new) / new)
    assert np.abs(resample(tone, old, new)[middle, 0] - expected[middle]).max() < 1e-4  # -80 dB
    if new < old:
        above = np.sin(2 * np.pi * (new / 2 * 1.15) * time)[:, None]
        assert np.abs(resample(above, old, new)[middle]).max() < 1e-4


def test_decoding_resamples(rng: np.random.Generator) -> None:
    samples = rng.integers(-20000, 20000, (441, 2))
    found = decode(integers(samples, 16, 44100), rate=16000)
    expected = resample(samples.mean(1, keepdims=True) / 32768, 44100, 16000)[:, 0]
    np.testing.assert_allclose(found["samples"][0], expected, rtol=1e-6, atol=1e-7)
    assert (found["rates"].tolist(), found["lengths"].tolist()) == ([16000], [160])


@pytest.mark.parametrize(("format", "name"), [("FLAC", "flac"), ("OGG", "ogg"), ("MP3", "mp3")])
def test_other_formats_by_soundfile(format: str, name: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000) * 0.5
    file = io.BytesIO()
    soundfile.write(file, tone, 16000, format=format)
    body = file.getvalue()
    found = decode(body, integers(np.zeros((10, 1)), 16, 16000), formats=["wav", name])
    length = int(found["lengths"][0])
    assert abs(length - 16000) < 3000  # MP3 adds silence
    loudness = np.sqrt((found["samples"][0, 4000:12000] ** 2).mean())
    assert abs(loudness - 0.5 / math.sqrt(2)) < 0.01
    with pytest.raises(RequestError, match=rf"bytes are {name}; formats are wav"):
        decode(body)
    broken = body[:200] + bytes(200)
    with pytest.raises(RequestError, match="element 0 of input 'audio'"):
        decode(broken[:60], formats=[name])


def test_without_soundfile_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    built()
    with pytest.raises(
        ConfigurationError, match=r"'soundfile' is not installed.*pip install soundfile"
    ):
        built(formats=["wav", "flac"])


GOOD = integers(np.zeros((100, 1)), 16)
DATA = (b"data", bytes(200))
BROKEN = {
    "nothing": (b"", "0 bytes are nothing known"),
    "text": (b"hello", "nothing known"),
    "cut off": (GOOD[:-1], "cut off: chunk 'data' has 200 bytes, 199 are there"),
    "head only": (GOOD[:12], "without samples"),
    "no format": (riff(DATA), "samples come before their format"),
    "no samples": (riff((b"fmt ", form(1, 1, 8000, 16))), "without samples"),
    "short format": (riff((b"fmt ", b"\1\0"), DATA), "format is cut off"),
    "a-law": (riff((b"fmt ", form(6, 1, 8000, 8)), DATA), r"not read \(format 6, 8 bits\)"),
    "40 bits": (riff((b"fmt ", form(1, 1, 8000, 40)), DATA), r"not read \(format 1, 40 bits\)"),
    "float of 16": (riff((b"fmt ", form(3, 1, 8000, 16)), DATA), r"not read \(format 3, 16 bits\)"),
    "no channels": (riff((b"fmt ", form(1, 0, 8000, 16)), DATA), "contradicts itself"),
    "frame": (
        riff((b"fmt ", struct.pack("<HHIIHH", 1, 2, 8000, 0, 2, 16)), DATA),
        "contradicts itself",
    ),
    "rate of 0": (riff((b"fmt ", form(1, 1, 0, 16)), DATA), "it has 0 samples a second"),
    "huge rate": (riff((b"fmt ", form(1, 1, 2**31, 16)), DATA), "samples a second; 1000 to 768000"),
    "channels": (riff((b"fmt ", form(1, 9, 8000, 16)), DATA), "it has 9 channels; 1 to 8"),
    "no bits": (riff((b"fmt ", form(1, 1, 8000, 0)), DATA), "not read"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_bytes_that_are_no_sound_are_named(case: str) -> None:
    file, text = BROKEN[case]
    with pytest.raises(RequestError, match=rf"element 1 of input 'audio': .*{text}"):
        decode(GOOD, file)


def test_long_sounds_are_refused() -> None:
    file = integers(np.zeros((8001, 1)), 16)
    assert decode(file, max_seconds=1.001)["samples"].shape == (1, 8001)
    with pytest.raises(TooLargeError, match="it lasts 1 seconds, 1 are allowed"):
        decode(file, max_seconds=1)


def test_rates_without_a_common_divisor_are_refused() -> None:
    prime = 48017
    assert max(prime, 16000) > MOST_TERMS
    with pytest.raises(RequestError, match="its 48017 samples a second cannot be brought to 16000"):
        decode(integers(np.zeros((10, 1)), 16, prime), rate=16000)
    assert decode(integers(np.zeros((10, 1)), 16, prime))["rates"].tolist() == [prime]


def test_hostile_bytes_are_answered_with_our_errors(rng: np.random.Generator) -> None:
    refused = 0
    for _ in range(400):
        bad = bytearray(integers(rng.integers(-99, 99, (30, 2)), 16))
        for place in rng.integers(0, 48, 1 + rng.integers(4)):
            bad[place] = rng.integers(256)
        try:
            decode(bytes(bad), rate=16000)
        except (RequestError, TooLargeError):
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": 999}, "rate"),
        ({"formats": ["aiff"]}, "aiff"),
        ({"samples": -1}, "samples"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"stereo": True}, "stereo"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        built(**options)
