"""A language model: text in, text out, token by token."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from infuse import dtypes
from infuse.errors import InputError, OptionError, RuntimeFailure
from infuse.frontends.gguf.container import GgufFile
from infuse.frontends.gguf.vocabulary import Vocabulary
from infuse.immutable import Immutable
from infuse.language.architectures import decoder_of
from infuse.language.compiling import compiled
from infuse.language.decoder import PAGE
from infuse.language.sampling import Sampler, Sampling
from infuse.language.stopping import StopTexts
from infuse.language.templates import Message, render

CACHES: Final = {"float16": dtypes.float16, "float32": dtypes.float32}
_AT_ONCE: Final = 512
"""Tokens of a prompt that are run at a time."""
Finish = Literal["stop", "length"]


class Piece(Immutable):
    """A token of an answer, and the text that is complete with it; the last one says why the answer
    ends.
    """

    token: int | None
    text: str
    finish: Finish | None = None


class Answer(Immutable):
    """An answer: its text without what ended it, its tokens, how many tokens of the prompt there
    were and how many of these were run (the others were in the cache), and seconds of both.
    """

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    prompt_tokens: int
    run_tokens: int
    prompt_seconds: float
    decode_seconds: float


class LanguageModel:
    """A decoder of a GGUF file, compiled for this machine.

    `threads`: of a run (default: all that this process may use). `context`: tokens of prompt and
    answer together at most (default: as many as the model takes, up to 8192). `cache`: what keys
    and values are stored as. `exact`: products take floats as they are, in place of rounding them
    to 8 bits block by block. One answer is made at a time, and streams that are read in turns run
    their texts anew; what a prompt has in common with the last prompt and answer is not run again.

    ModelFileError and UnsupportedOperatorError for a file that is damaged or of another family.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        threads: int | None = None,
        context: int | None = None,
        cache: str = "float16",
        exact: bool = False,
    ) -> None:
        if cache not in CACHES:
            raise OptionError(f"the cache is {cache!r}", hint=f"there are {', '.join(CACHES)}")
        file = GgufFile(Path(path))
        self.vocabulary = Vocabulary(file.metadata)
        self.decoder = decoder_of(file)
        self.context = self._context_of(context)
        self._model = compiled(file, self.decoder, threads, CACHES[cache], exact)
        self._states = self._empty(CACHES[cache].numpy)
        self._pages = np.arange(self._page_count, dtype=np.int64)[None]
        self._held: list[int] = []
        """The tokens whose keys and values are in the cache."""
        self._lock = threading.RLock()

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; later calls raise RuntimeFailure."""
        self._model.close()
        self._states = {}

    # -- answers -----------------------------------------------------------------------------------

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 128,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        **sampling: Any,
    ) -> Answer:
        """The answer to a prompt: text, in which names of special tokens stand for these, or
        numbers of tokens. Arguments are those of `stream`.
        """
        begun = time.perf_counter()
        tokens = self._tokens_of(prompt)
        with self._lock:
            before = self._common(tokens)
            stream = self._stream(tokens, max_tokens, stop, ignore_eos, Sampling(**sampling))
            first = next(stream)
            middle = time.perf_counter()
            pieces = [first, *stream]
        ended = time.perf_counter()
        finish = pieces[-1].finish
        assert finish is not None
        return Answer(
            "".join(piece.text for piece in pieces),
            tuple(piece.token for piece in pieces if piece.token is not None),
            finish,
            len(tokens),
            len(tokens) - before,
            middle - begun,
            ended - middle,
        )

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 128,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        **sampling: Any,
    ) -> Iterator[Piece]:
        """The pieces of an answer of `max_tokens` at most. It ends before one of the texts `stop`,
        and, unless `ignore_eos`, with a token that ends answers. Other arguments are those of
        `Sampling`.

        InputError for a prompt that is empty, does not fit into the context, or has tokens that
        the model does not have.
        """
        tokens, drawn = self._tokens_of(prompt), Sampling(**sampling)
        yield from self._stream(tokens, max_tokens, stop, ignore_eos, drawn)

    def chat(self, messages: Sequence[Message], **how: Any) -> Answer:
        """The answer to messages, each with `role` and `content`, by the model's chat template.
        Arguments are those of `stream`.
        """
        return self.generate(self.prompt_of(messages), **how)

    def prompt_of(self, messages: Sequence[Message], **values: Any) -> list[int]:
        """Messages as tokens, by the model's chat template; `values`: what it is given besides."""
        template = self.vocabulary.chat_template
        if template is None:
            raise InputError("the model has no chat template", hint="give the prompt as text")
        names = {"bos_token": self.vocabulary.bos, "eos_token": self.vocabulary.eos}
        texts = {n: "" if t is None else self.vocabulary.text(t) for n, t in names.items()}
        return self.vocabulary.encode(render(template, messages, **texts, **values))

    # -- runs --------------------------------------------------------------------------------------

    def logits(self, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """The logits (tokens, words) behind each of these tokens, as a text of their own."""
        with self._lock:
            self._held = []
            own = self._tokens_of(list(tokens))
            parts = (own[i : i + _AT_ONCE] for i in range(0, len(own), _AT_ONCE))
            return np.concatenate([self._run(part, range(len(part))) for part in parts])

    def _stream(
        self,
        tokens: list[int],
        max_tokens: int,
        stop: str | Sequence[str],
        ignore_eos: bool,
        sampling: Sampling,
    ) -> Iterator[Piece]:
        if max_tokens < 1:
            raise InputError(f"max_tokens is {max_tokens}, and an answer has at least one")
        sampler, texts = Sampler(sampling, self.decoder.words), StopTexts(stop)
        words, answer = self.vocabulary.detokenizer(), list(tokens)
        most = min(max_tokens, self.context - len(tokens))
        for count in range(1, most + 1):
            token = sampler.draw(self._behind(answer), answer)
            if token in self.vocabulary.ends and not ignore_eos:
                yield Piece(token, texts.push(words.finish()) + texts.finish(), "stop")
                return
            answer.append(token)
            text = texts.push(words.push(token))
            if texts.stopped:
                yield Piece(token, text, "stop")
                return
            if count == most:
                yield Piece(token, text + texts.push(words.finish()) + texts.finish(), "length")
                return
            yield Piece(token, text)

    def _behind(self, tokens: list[int]) -> np.ndarray[Any, Any]:
        """The logits behind a text, of which what is not in the cache is run: mostly one token, and
        more where another answer came between.
        """
        with self._lock:
            first = self._common(tokens)
            del self._held[first:]
            for start in range(first, len(tokens), _AT_ONCE):
                part = tokens[start : start + _AT_ONCE]
                is_last = start + _AT_ONCE >= len(tokens)
                logits = self._run(part, [len(part) - 1] if is_last else [])
        result: np.ndarray[Any, Any] = logits[0]
        return result

    def _common(self, tokens: list[int]) -> int:
        """Tokens of a text that need not be run: never the last."""
        if self._held == tokens[:-1]:
            return len(self._held)
        count = 0
        for one, other in zip(tokens[:-1], self._held):
            if one != other:
                break
            count += 1
        return count

    def _run(self, tokens: Sequence[int], rows: Sequence[int]) -> np.ndarray[Any, Any]:
        """Run tokens behind those that are held; the logits behind those of some numbers."""
        if not self._states:
            raise RuntimeFailure("the model is closed", hint="open it again")
        first, count = len(self._held), len(tokens)
        held, self._held = self._held, []  # a run that fails leaves nothing to rely on
        outputs = self._model.run(
            {
                "tokens": np.array(tokens, np.int64),
                "positions": np.arange(first, first + count),
                "starts": np.array([0, count]),
                "lengths": np.array([first + count]),
                "pages": self._pages,
                "rows": np.array(rows, np.int64),
                **self._states,
            }
        )
        self._held = [*held, *tokens]
        logits: np.ndarray[Any, Any] = outputs["logits"]
        return logits

    # -- parts -------------------------------------------------------------------------------------

    def _tokens_of(self, prompt: str | Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            tokens = self.vocabulary.encode(prompt, framed=True)
            if self.vocabulary.adds_eos and tokens and tokens[-1] in self.vocabulary.ends:
                tokens.pop()
        else:
            tokens = [int(token) for token in prompt]
        wrong = [token for token in tokens if not 0 <= token < self.decoder.words]
        if wrong:
            raise InputError(f"the prompt has token {wrong[0]}; there are {self.decoder.words}")
        if not tokens:
            raise InputError("the prompt is empty")
        if len(tokens) >= self.context:
            raise InputError(
                f"the prompt has {len(tokens)} tokens, and the context {self.context}",
                hint="shorten it, or open the model with a larger context",
            )
        return tokens

    def _context_of(self, context: int | None) -> int:
        most = self.decoder.context
        if context is None:
            return min(most, 8192)
        if not 2 <= context <= most:
            raise OptionError(f"the context is {context}, and the model takes from 2 to {most}")
        return context

    @property
    def _page_count(self) -> int:
        return -(-self.context // PAGE)

    def _empty(self, dtype: np.dtype[Any]) -> Mapping[str, np.ndarray[Any, Any]]:
        """The states; the system gives memory for those pages alone that are used."""
        d, pages = self.decoder, self._page_count
        shapes = {
            "keys": (pages, d.kv_heads, d.size, PAGE),
            "values": (pages, d.kv_heads, PAGE, d.value_size),
        }
        return {
            f"{kind}.{i}": np.zeros(shape, dtype)
            for i in range(d.layers)
            for kind, shape in shapes.items()
        }
