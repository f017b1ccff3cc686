"""Bearer tokens: made at random, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from infuse.errors import ConfigurationError
from infuse.serving.config import Token

_PREFIX: Final = "infuse_"  # tells scanners of logs and repositories what leaked
_RANDOM_BYTES: Final = 32
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_EMPTY: Final = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class Holder:
    """Whoever shows a token: the name for logs, what the token allows, and the models it is limited
    to (empty: all).
    """

    name: str
    role: Literal["infer", "admin"]
    models: frozenset[str]


class Tokens:
    """The tokens of a configuration; ConfigurationError for a hash that is none, or that is there
    twice.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._holders: list[tuple[bytes, Holder]] = []
        for index, token in enumerate(tokens):
            digest = _digest(token, f"security.tokens[{index}]")
            if any(digest == other for other, _ in self._holders):
                raise ConfigurationError(
                    "this hash is there twice", where=f"security.tokens[{index}]"
                )
            name = token.name or token.sha256[:8].lower()
            self._holders.append((digest, Holder(name, token.role, frozenset(token.models))))

    def __len__(self) -> int:
        return len(self._holders)

    def find(self, text: str) -> Holder | None:
        """The holder of a token. The time that it takes tells nothing about the tokens that there
        are.
        """
        shown = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        match = None
        for digest, holder in self._holders:
            if hmac.compare_digest(digest, shown):
                match = holder
        return match


def new_token() -> tuple[str, str]:
    """A new random token (256 bits), and the SHA-256 of it, in hexadecimal digits, for the
    configuration.
    """
    text = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return text, hashlib.sha256(text.encode()).hexdigest()


def bearer(header: str) -> str:
    """The token of an `Authorization` header; empty when it brings none."""
    scheme, _, text = header.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _digest(token: Token, where: str) -> bytes:
    text = token.sha256.strip().lower()
    hint = "`infuse serve --make-token` prints a token and its hash"
    if not _HASH.fullmatch(text):
        raise ConfigurationError("sha256 is not 64 hexadecimal digits", where=where, hint=hint)
    digest = bytes.fromhex(text)
    if digest == _EMPTY:
        raise ConfigurationError("sha256 is that of the empty text", where=where, hint=hint)
    return digest
