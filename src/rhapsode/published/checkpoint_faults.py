"""Finds faults in a checkpoint's files that loading does not show: ids of other tokens, and rounded weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rhapsode.errors import RhapsodeError

_ID_KEY = re.compile(r"(?:^|\.)(\w+?)_token_id$")
_LOW_BITS = 0xFFFF
LEAST_ROUNDED = 0.9
"""The share of the float32 weights of a file that must be bfloat16 numbers before it counts as rounded."""


def faults(folder: Path) -> list[str]:
    """Returns a line for every fault that is found in a checkpoint's folder."""
    return [*wrong_ids(folder), *rounded_weights(folder)]


def wrong_ids(folder: Path) -> Iterator[str]:
    """Yields ids of special tokens in `config.json` at which the vocabulary has another token."""
    names = special_tokens(folder)
    config = folder / "config.json"
    if not names or not config.is_file():
        return
    try:
        content = json.loads(config.read_text("utf-8"))
    except ValueError:
        return
    by_words = {_words(name): number for number, name in names.items()}
    for key, number in _numbers(content):
        if not (found := _ID_KEY.search(key)):
            continue
        wanted = _words(found[1])
        right = by_words.get(wanted)
        if right is None:
            wider = [one for words, one in by_words.items() if wanted < words]
            right = wider[0] if len(wider) == 1 else None
        if right is not None and right != number:
            there = names.get(number, "no special token")
            yield (
                f"token id: {key} of config.json is {number}, which is {there} in the vocabulary; "
                f"{names[right]} has {right}"
            )


def special_tokens(folder: Path) -> dict[int, str]:
    """Returns the names of the added tokens of a vocabulary by their ids."""
    found: dict[int, str] = {}
    for file in ("tokenizer.json", "tokenizer_config.json", "added_tokens.json"):
        try:
            content = json.loads((folder / file).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if file == "tokenizer.json":
            found |= {one["id"]: one["content"] for one in content.get("added_tokens", ())}
        elif file == "tokenizer_config.json":
            decoder = content.get("added_tokens_decoder", {})
            found |= {int(number): one["content"] for number, one in decoder.items()}
        else:
            found |= {number: name for name, number in content.items()}
    return found


def rounded_weights(folder: Path) -> Iterator[str]:
    """Yields files of float32 weights that hold bfloat16 numbers alone: they were converted, and rounded on the way."""
    from rhapsode.checkpoints.files import read_file

    for path in sorted(folder.rglob("*.safetensors")):
        try:
            tensors = read_file(path)
        except RhapsodeError:
            continue  # `verify` tells
        wide = {name: tensor for name, tensor in tensors.items() if _is_wide(tensor)}
        rounded = sum(tensor.numel() for tensor in wide.values() if _is_rounded(tensor))
        if wide and rounded >= LEAST_ROUNDED * sum(tensor.numel() for tensor in wide.values()):
            yield (
                f"precision: the {len(wide)} float32 tensors of {path.relative_to(folder).as_posix()} hold only "
                "bfloat16 numbers: they were rounded, and sound worse where float32 was published"
            )


def _is_wide(tensor: Tensor) -> bool:
    """Whether a tensor has float32 numbers that are not all alike, as weights have."""
    return tensor.dtype == torch.float32 and tensor.numel() > 16 and bool((tensor != tensor.flatten()[0]).any())


def _is_rounded(tensor: Tensor) -> bool:
    return not bool((tensor.contiguous().view(torch.int32) & _LOW_BITS).any())


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower().replace("_", " ")))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            yield f"{prefix}{key}", value
