"""`infuse generate` and `infuse chat`: answers of language models."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.options import AsJson
from infuse.errors import OptionError
from infuse.language.model import LanguageModel, Piece

Decoder = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A language model: a GGUF file.", show_default=False),
]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads of a run (default: all).", min=1)
]
Context = Annotated[
    int | None,
    typer.Option("--context", help="Tokens of prompt and answer together (default: to 8192)."),
]
Cache = Annotated[
    str, typer.Option("--cache", help="What keys and values are stored as: float16 or float32.")
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Multiply floats, in place of rounding them to 8 bits by block."),
]
MostTokens = Annotated[int, typer.Option("--max-tokens", help="Tokens of an answer at most.")]
Temperature = Annotated[
    float, typer.Option("--temperature", help="0 takes the likeliest token; more draws.")
]
TopK = Annotated[int, typer.Option("--top-k", help="Draw from so many tokens (0: all).")]
TopP = Annotated[float, typer.Option("--top-p", help="Draw from this much probability.")]
MinP = Annotated[
    float,
    typer.Option("--min-p", help="Draw from tokens of this share of the largest probability."),
]
RepetitionPenalty = Annotated[
    float, typer.Option("--repetition-penalty", help="Divides the logits of the last tokens.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of what is drawn.")]
Stop = Annotated[
    list[str] | None, typer.Option("--stop", metavar="TEXT", help="Ends an answer (repeatable).")
]


def generate(
    model: Decoder,
    prompt: Annotated[
        str, typer.Argument(help="The text to go on with; - reads it from standard input.")
    ],
    max_tokens: MostTokens = 128,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on behind tokens that end answers.")
    ] = False,
    threads: Threads = None,
    context: Context = None,
    cache: Cache = "float16",
    exact: Exact = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a text, as it stands: without the model's chat template."""
    text = sys.stdin.read() if prompt == "-" else prompt
    how = _how(temperature, top_k, top_p, min_p, repetition_penalty, seed, stop)
    how |= {"max_tokens": max_tokens, "ignore_eos": ignore_eos}
    with LanguageModel(model, threads=threads, context=context, cache=cache, exact=exact) as opened:
        if not as_json:
            _show(opened.stream(text, **how))
            return
        answer = opened.generate(text, **how)
    terminal.say_json(
        {
            "text": answer.text,
            "tokens": list(answer.tokens),
            "finish": answer.finish,
            "prompt_tokens": answer.prompt_tokens,
            "prompt_seconds": answer.prompt_seconds,
            "decode_seconds": answer.decode_seconds,
        }
    )


def chat(
    model: Decoder,
    message: Annotated[
        list[str] | None,
        typer.Option("-m", "--message", metavar="TEXT", help="In place of lines (repeatable)."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="What the model is told first.")
    ] = None,
    max_tokens: MostTokens = 1024,
    temperature: Temperature = 0.7,
    top_k: TopK = 0,
    top_p: TopP = 0.95,
    min_p: MinP = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    threads: Threads = None,
    context: Context = None,
    cache: Cache = "float16",
    exact: Exact = False,
) -> None:
    """Talk with a model by its chat template: a line is a message; an empty line or the end of the
    input ends.
    """
    how = _how(temperature, top_k, top_p, min_p, repetition_penalty, seed, stop)
    how["max_tokens"] = max_tokens
    messages = [{"role": "system", "content": system}] if system else []
    with LanguageModel(model, threads=threads, context=context, cache=cache, exact=exact) as opened:
        if opened.vocabulary.chat_template is None:
            raise OptionError(
                "the model has no chat template", where=str(model), hint="use infuse generate"
            )
        for line in message or _lines():
            messages.append({"role": "user", "content": line})
            text = _show(opened.stream(opened.prompt_of(messages), **how))
            messages.append({"role": "assistant", "content": text})


def _lines() -> Iterable[str]:
    """What is typed, line by line."""
    is_typed = sys.stdin.isatty()
    while True:
        if is_typed:
            typer.echo("> ", nl=False)
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


def _show(pieces: Iterable[Piece]) -> str:
    """Print an answer as it comes."""
    texts = []
    for piece in pieces:
        texts.append(piece.text)
        typer.echo(piece.text, nl=False)
        sys.stdout.flush()
    typer.echo()
    return "".join(texts)


def _how(
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
    seed: int | None,
    stop: list[str] | None,
) -> dict[str, Any]:
    return {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": stop or (),
    }
