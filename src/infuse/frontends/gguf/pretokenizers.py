"""Into which words texts are split before pairs are merged, by the names that GGUF files have for
it (`tokenizer.ggml.pre`).

The patterns are those of the `tokenizer.json` files of the models that a name stands for, or, where
these have several steps, one pattern a step: every step splits the words of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infuse.errors import UnsupportedOperatorError, did_you_mean
from infuse.immutable import Immutable

_ENGLISH: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_END: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_END_OF_ONE: Final = r"\s*[\r\n]|\s+(?!\S)|\s+"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_ONE: Final = r"[^\r\n\p{L}\p{N}]?"
_LLAMA3: Final = rf"{_ENGLISH}|{_ONE}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}[\r\n]*|{_END}"
_QWEN2: Final = rf"{_ENGLISH}|{_ONE}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_END}"
_QWEN35: Final = (
    rf"{_ENGLISH}|{_ONE}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_END}"
)
_TEKKEN: Final = (
    rf"{_ONE}{_UPPER}*{_LOWER}+|{_ONE}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS}[\r\n/]*|{_END}"
)
_GPT4O: Final = (
    rf"{_ONE}{_UPPER}*{_LOWER}+{_ENGLISH}?|{_ONE}{_UPPER}+{_LOWER}*{_ENGLISH}?|\p{{N}}{{1,3}}|"
    rf"{_SIGNS}[\r\n/]*|{_END}"
)
_BLOOM: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_ASCII_SIGNS: Final = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_SIGN_WORDS: Final = rf"{_ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
_DEEPSEEK3: Final = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    rf"{_SIGN_WORDS}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_END}",
)
_CASED: Final = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ"
    "ὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤ"
    "Ⳬ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
"""Letters that have a case, as DeepSeek LLM lists them."""
_CHINESE_KOREAN: Final = "[一-龥ࠀ-一가-\ud7ff]+"


class PreTokenizer(Immutable):
    """How texts are split: the patterns of the steps, and what a name stands for besides.

    `whole_words`: a word that is a token is not split and merged again. `begins`: texts begin with
    the token for it, where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False


def pre_tokenizer(name: str) -> PreTokenizer:
    """The one of a name; UnsupportedOperatorError for an unknown one."""
    if name not in PRE_TOKENIZERS:
        raise UnsupportedOperatorError(
            f"tokenizer.ggml.pre is {name!r}, a way to split texts that is not known",
            hint=did_you_mean(name, PRE_TOKENIZERS, otherwise=f"there are {', '.join(_NAMES)}"),
        )
    return PRE_TOKENIZERS[name]


_KINDS: Final[Mapping[str, PreTokenizer]] = {
    "default": PreTokenizer(
        (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    ),
    "gpt-2 phi-2 mpt olmo jais trillion gigachat a.x-4.0 mellum modern-bert exaone4 jina-es "
    "jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
    "granite-docling": PreTokenizer((_GPT2,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": PreTokenizer(
        (r"\p{N}", _GPT2)
    ),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": PreTokenizer(
        (_LLAMA3,), whole_words=True, begins=True
    ),
    "glm4 chatglm-bpe dbrx smaug-bpe": PreTokenizer((_LLAMA3,)),
    "minicpm5": PreTokenizer(
        (r"\p{N}{1,3}", _LLAMA3.replace("{1,3}", "+")), whole_words=True
    ),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": PreTokenizer(
        (_QWEN2,)
    ),
    "qwen35": PreTokenizer((_QWEN35,)),
    "tekken": PreTokenizer((_TEKKEN,), whole_words=True, begins=True),
    "gpt-4o llama4 kanana2 talkie minimax-m2": PreTokenizer((_GPT4O,)),
    "deepseek-llm": PreTokenizer(
        (
            r"[\r\n]", rf"\s?[{_CASED}]+", r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"(?<!\s)\s+$",
            _CHINESE_KOREAN, r"\p{N}+",
        )
    ),
    "deepseek-coder": PreTokenizer(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CHINESE_KOREAN, r"\p{N}")
    ),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": PreTokenizer(_DEEPSEEK3),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "poro-chat bloom gpt3-finnish": PreTokenizer((_BLOOM,)),
    "viking": PreTokenizer((_BLOOM, r"\p{N}")),
    "bailingmoe bailingmoe2 llada-moe": PreTokenizer(
        (rf"'(?i:[sdmt]|ll|ve|re)|{_ONE}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_END_OF_ONE}",)
    ),
    "seed-coder": PreTokenizer(
        (rf"{_ENGLISH}|{_ONE}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_END}",)
    ),
}  # fmt: skip
PRE_TOKENIZERS: Final[Mapping[str, PreTokenizer]] = {
    name: kind for names, kind in _KINDS.items() for name in names.split()
}
"""By name."""
_NAMES: Final = tuple(names.split()[0] for names in _KINDS)
