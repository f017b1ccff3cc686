"""Reading sound."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from infuse.errors import RequestError, TooLargeError
from infuse.runtime.session import Array
from infuse.serving.config import Natural
from infuse.serving.datatypes import BYTES
from infuse.serving.engine.pipelines.ports import Port
from infuse.serving.engine.pipelines.resampling import MOST_TERMS, resample, terms
from infuse.serving.engine.pipelines.steps import Builtin, Options, Place, elements, of_each
from infuse.serving.engine.pipelines.waves import Sound, read_wave

_Rate = Annotated[int, msgspec.Meta(ge=1000, le=768_000)]
_LOWEST: Final = 1000  # samples a second
_HIGHEST: Final = 768_000


class AudioOptions(Options, frozen=True):
    """How sounds are decoded."""

    rate: _Rate | None = None
    """Samples a second of the result; without it, sounds keep theirs."""
    mono: bool = True
    """Whether channels are averaged."""
    formats: tuple[Literal["wav", "flac", "ogg", "mp3"], ...] = ("wav",)
    """Formats that are taken: `wav`, and `flac`, `ogg`, `mp3` by `soundfile`."""
    samples: Natural = 0
    """Length of the result; shorter sounds are filled with zeros, longer ones cut; 0: as the
    longest.
    """
    max_seconds: Annotated[float, msgspec.Meta(gt=0)] = 600.0
    """Length that a sound may have, before it is decoded."""
    max_channels: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """Channels that a sound may have, likewise."""


class DecodeAudio(Builtin[AudioOptions]):
    """Samples from the bytes of sound files: WAV, and FLAC, Ogg and MP3 where `soundfile` is
    installed.

    Input: `audio`, BYTES [n] or [n, 1], a file per element. Outputs: `samples`, FP32 [n, length],
    within -1 … 1 where the file has integers, or [n, channels, length] with `mono: false`;
    `lengths`, INT64 [n], how many samples of a row are the sound; `rates`, INT64 [n], samples a
    second of the result. Options: `AudioOptions`.

    Rates are changed by a polyphase filter (`resampling.py`). RequestError for bytes that are no
    sound or cut off, TooLargeError for more than `max_seconds`.
    """

    kind = AudioOptions

    def prepare(self, options: AudioOptions, place: Place) -> None:
        """Look for the module that reads what is not WAV."""
        self.options = options
        others = set(options.formats) - {"wav"}
        self._soundfile = place.need("soundfile", "soundfile") if others else None
        length = options.samples or -1
        self.inputs = (Port("audio", frozenset({BYTES})),)
        self.outputs = (
            Port(
                "samples", frozenset({"FP32"}), (-1, length) if options.mono else (-1, -1, length)
            ),
            Port("lengths", frozenset({"INT64"}), (-1,)),
            Port("rates", frozenset({"INT64"}), (-1,)),
        )

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        sounds = of_each(elements(inputs["audio"], "audio"), "audio", self._sound)
        self._check_channels(sounds)
        cut = self.options.samples
        lengths = [min(len(sound.data), cut) if cut else len(sound.data) for sound in sounds]
        channels = sounds[0].data.shape[1] if sounds else 1
        samples = np.zeros((len(sounds), channels, cut or max(lengths, default=0)), np.float32)
        for sound, length, row in zip(sounds, lengths, samples):
            row[:, :length] = sound.data[:length].T
        return {
            "samples": samples[:, 0] if self.options.mono else samples,
            "lengths": np.asarray(lengths, np.int64),
            "rates": np.asarray([sound.rate for sound in sounds], np.int64),
        }

    def _check_channels(self, sounds: Sequence[Sound]) -> None:
        for number, sound in enumerate(sounds):
            one, other = sounds[0].data.shape[1], sound.data.shape[1]
            if one != other:
                raise RequestError(
                    f"sounds of one request must have as many channels: the first has {one}, this "
                    f"one {other}",
                    where=f"element {number} of input 'audio'",
                )

    def _sound(self, file: bytes) -> Sound:
        """One file, mixed and brought to the rate that is asked for."""
        kind = _kind(file)
        if kind is None or kind not in self.options.formats:
            formats = ", ".join(self.options.formats)
            raise RequestError(
                f"its {len(file)} bytes are {kind or 'nothing known'}; formats are {formats}"
            )
        sound = read_wave(file, self._check) if kind == "wav" else self._other(file)
        data = sound.data.mean(1, keepdims=True) if self.options.mono else sound.data
        rate = self.options.rate or sound.rate
        return Sound(resample(data, sound.rate, rate), rate)

    def _check(self, rate: int, channels: int, frames: int) -> None:
        """Whether a sound of this size is taken; asked before its samples are read."""
        if not _LOWEST <= rate <= _HIGHEST:
            raise RequestError(
                f"it has {rate} samples a second; {_LOWEST} to {_HIGHEST} are allowed"
            )
        if self.options.rate and max(terms(rate, self.options.rate)) > MOST_TERMS:
            raise RequestError(
                f"its {rate} samples a second cannot be brought to {self.options.rate}"
            )
        if not 1 <= channels <= self.options.max_channels:
            raise RequestError(
                f"it has {channels} channels; 1 to {self.options.max_channels} are allowed"
            )
        if frames > self.options.max_seconds * rate:
            raise TooLargeError(
                f"it lasts {frames / rate:.0f} seconds, {self.options.max_seconds:g} are allowed"
            )

    def _other(self, file: bytes) -> Sound:
        assert self._soundfile is not None
        try:
            with self._soundfile.SoundFile(io.BytesIO(file)) as source:
                self._check(source.samplerate, source.channels, max(source.frames, 0))
                most = int(self.options.max_seconds * source.samplerate) + 1
                data = source.read(most, dtype="float64", always_2d=True)
                rate = int(source.samplerate)
        except (self._soundfile.SoundFileError, RuntimeError, ValueError, OverflowError) as error:
            raise RequestError(f"its {len(file)} bytes cannot be decoded: {error}") from error
        self._check(rate, data.shape[1], len(data))
        return Sound(data, rate)


# What the bytes begin with → the format.
_STARTS: Final[Sequence[tuple[str, Callable[[bytes], bool]]]] = (
    ("wav", lambda file: file[:4] in (b"RIFF", b"RF64") and file[8:12] == b"WAVE"),
    ("flac", lambda file: file[:4] == b"fLaC"),
    ("ogg", lambda file: file[:4] == b"OggS"),
    (
        "mp3",
        lambda file: (
            file[:3] == b"ID3" or (len(file) > 1 and file[0] == 0xFF and file[1] & 0xE6 == 0xE2)
        ),
    ),
)


def _kind(file: bytes) -> Any:
    return next((kind for kind, fits in _STARTS if fits(file)), None)
