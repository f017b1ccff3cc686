"""silero-vad: which frames of a recording have speech. A synthetic voice reads verses in noise;
frames are labelled by the energy of the voice alone.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Sequence

import numpy as np

from benchmarks.compression_tasks.base import Answers, Feeds, Prepared, Recipe, Truth
from benchmarks.compression_tasks.packages import Packages
from benchmarks.compression_tasks.verses import verses

RATE, FRAME, CONTEXT = 16_000, 512, 64
THRESHOLD = 0.5
VOICES = ("en-us", "en-gb", "en-us+f2", "en-gb+f4", "en-us+m3", "en-gb-scotland+m7")
CALIBRATING, TESTED = 24, 72
QUIET = 40.0
"""Decibels below the loudest frame at which the voice counts as silent."""


class Speaker:
    """espeak-ng, which is not installed but lies in a folder."""

    def __init__(self, packages: Packages) -> None:
        root = packages.debian(
            "espeak-ng", "espeak-ng-data", "libespeak-ng1", "libpcaudio0", "libsonic0"
        )
        self.data = next(root.glob("usr/lib/*/espeak-ng-data")).parent
        self.program = root / "usr" / "bin" / "speak-ng"

    def say(self, text: str, voice: str, speed: int) -> np.ndarray:
        """The text as samples from -1 to 1 at 16 kHz."""
        from scipy.io import wavfile
        from scipy.signal import resample_poly

        options = [f"--path={self.data}", "-v", voice, "-s", str(speed), "--stdout", text]
        done = subprocess.run(
            [str(self.program), *options],
            env={**os.environ, "LD_LIBRARY_PATH": str(self.data)},
            capture_output=True,
            check=True,
        )
        header = bytearray(done.stdout)  # sizes are unknown to a pipe: they are put in
        header[4:8] = (len(header) - 8).to_bytes(4, "little")
        header[40:44] = (len(header) - 44).to_bytes(4, "little")
        rate, samples = wavfile.read(io.BytesIO(bytes(header)))
        return resample_poly(samples / 32768, RATE // 50, rate // 50)


def recording(
    voice: np.ndarray, decibels: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A voice in noise so many decibels below it, samples [n], and whether frames have speech."""
    length = len(voice) // FRAME * FRAME
    voice = voice[:length]
    spectrum = np.fft.rfft(rng.normal(size=length))
    spectrum /= np.maximum(np.arange(len(spectrum)), 50.0) ** 0.5  # pink
    noise = np.fft.irfft(spectrum, length)
    speaking = voice[np.abs(voice) > 1e-3]
    noise *= np.sqrt(np.mean(speaking**2) / np.mean(noise**2)) * 10 ** (-decibels / 20)
    energy = np.square(voice.reshape(-1, FRAME)).mean(1) + 1e-12
    return voice + noise, energy > energy.max() * 10 ** (-QUIET / 10)


def frames(samples: np.ndarray) -> Feeds:
    """What the network reads: each frame behind the last samples of the one before it."""
    padded = np.concatenate([np.zeros(CONTEXT), samples]).astype(np.float32)
    starts = np.arange(0, len(samples), FRAME)
    rows = padded[starts[:, None] + np.arange(CONTEXT + FRAME)]
    state = np.zeros((1, 1, 128), np.float32)
    return {"input": rows, "h": state, "c": state}


def prepared(packages: Packages) -> Prepared:
    """The network for whole recordings, as it is shipped, and recordings."""
    folder = packages.pypi("silero-vad", "6.2.3") / "silero_vad" / "data"
    speaker, rng = Speaker(packages), np.random.default_rng(0)
    texts = [verse for verse in verses(packages) if 60 <= len(verse) <= 110]
    feeds: list[Feeds] = []
    labels: list[np.ndarray] = []
    for number in range(CALIBRATING + TESTED):
        parts = [np.zeros(int(rng.integers(RATE // 2, 2 * RATE)))]
        for text in rng.choice(texts, 2):
            spoken = speaker.say(text, VOICES[number % len(VOICES)], int(rng.integers(130, 200)))
            pause = np.zeros(int(rng.integers(RATE, 3 * RATE)))
            parts += [spoken * rng.uniform(0.2, 0.9), pause]
        samples, speech = recording(np.concatenate(parts), (20, 10, 5, 0)[number % 4], rng)
        feeds.append(frames(samples))
        labels.append(speech)
    return Prepared(
        (folder / "silero_vad_16k_sequence.onnx").read_bytes(),
        feeds[:CALIBRATING],
        feeds[CALIBRATING:],
        {"speech": np.concatenate(labels[CALIBRATING:])},
    )


def f1(answers: Sequence[Answers], truth: Truth) -> float:
    """The F1 score of frames with speech."""
    said = np.concatenate([one["speech_probs"].ravel() for one in answers]) > THRESHOLD
    right = truth["speech"]
    return float(2 * np.sum(said & right) / (said.sum() + right.sum()))


RECIPES = (Recipe("silero_vad", "F1 of frames", prepared, f1),)
