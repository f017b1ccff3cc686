"""Building blocks of what comes before and after a network: images, boxes, sound, sequences, text.

Each is a function of arrays, for programs that `infuse.trace` records, so that it becomes a part of
the model. Called outside of a trace, with NumPy's arrays, it computes the same at once.
"""

from infuse.processing.audio import (
    frames,
    istft,
    preemphasis,
    resample,
    spectrogram,
    stft,
    window,
)
from infuse.processing.mel import (
    amplitude_to_db,
    kaldi_fbank,
    mel_filters,
    mel_spectrogram,
    mfcc,
    nemo_log_mel,
    power_to_db,
    whisper_log_mel,
)
from infuse.processing.sequences import (
    ctc_beam_search,
    ctc_greedy,
    generate,
    next_token,
    viterbi,
)
from infuse.processing.text import detokenize, tokenize

__all__ = [
    "amplitude_to_db",
    "ctc_beam_search",
    "ctc_greedy",
    "detokenize",
    "frames",
    "generate",
    "istft",
    "kaldi_fbank",
    "mel_filters",
    "mel_spectrogram",
    "mfcc",
    "nemo_log_mel",
    "next_token",
    "power_to_db",
    "preemphasis",
    "resample",
    "spectrogram",
    "stft",
    "tokenize",
    "viterbi",
    "whisper_log_mel",
    "window",
]
