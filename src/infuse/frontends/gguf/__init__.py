"""GGUF files, as llama.cpp writes them: container, formats of blocks, vocabulary."""

from infuse.frontends.gguf.container import GgufFile, GgufTensor

__all__ = ["GgufFile", "GgufTensor"]
