"""Building blocks of what comes before and after a network: images, boxes, sound, sequences, text.

Each is a function of arrays, for programs that `infuse.trace` records, so that it becomes a part of
the model. Called outside of a trace, with NumPy's arrays, it computes the same at once.
"""

from infuse.processing.text import detokenize, tokenize

__all__ = ["detokenize", "tokenize"]
