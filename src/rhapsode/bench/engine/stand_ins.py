"""Stand-ins for packages that a bare GPU machine lacks, just enough to run random weights.

Families import `tokenizers` to make prompts. Random weights need no real vocabulary: torch, numpy, pydantic, yaml,
typer and rich are enough to measure them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def install() -> list[str]:
    """Installs a stand-in for each missing package and returns their names."""
    absent = [name for name in _MAKERS if importlib.util.find_spec(name) is None]
    for name in absent:
        sys.modules.update(_MAKERS[name]())
    return absent


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__dict__.update(content)
    return module


def _safetensors() -> dict[str, ModuleType]:
    return {"safetensors": _module("safetensors")}


def _tokenizers() -> dict[str, ModuleType]:
    models = _module("tokenizers.models", BPE=object)
    modules = {
        "normalizers": _module("tokenizers.normalizers"),
        "pre_tokenizers": _module("tokenizers.pre_tokenizers", Split=NoSplit),
    }
    package = _module("tokenizers", Tokenizer=ByteTokenizer, Regex=str, models=models, **modules)
    return {"tokenizers": package, "tokenizers.models": models} | {f"tokenizers.{n}": m for n, m in modules.items()}


_MAKERS: dict[str, Callable[[], dict[str, ModuleType]]] = {
    "safetensors": _safetensors,
    "tokenizers": _tokenizers,
}


class Encoding:
    """What a tokenizer returns: the ids of a text."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids


class NoSplit:
    """Stands for `tokenizers.pre_tokenizers.Split`, which cuts a text into words. It leaves it in one piece: where
    every byte is a token, the tokens are the same."""

    def __init__(self, pattern: str, behavior: str) -> None:
        pass

    def pre_tokenize_str(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        return [(text, (0, len(text)))]


class ByteTokenizer:
    """Stands for `tokenizers.Tokenizer`: makes one token of every byte, whatever `tokenizer.json` says."""

    @staticmethod
    def from_str(description: str) -> ByteTokenizer:
        return ByteTokenizer()

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoding:
        return Encoding(list(text.encode("utf-8")))

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[Encoding]:
        return [self.encode(text) for text in texts]
