"""Reads the codec's folder: the layout of transformers, or the original `model.pth` with names of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from rhapsode.checkpoints.files import read_file
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import INDEX, SINGLE, Tensors, TensorsInMemory, Weights

ORIGINAL = "model.pth"
_UNIT = ("snake1", "conv1", "snake2", "conv2")
_HALVES = {
    "encoder.block": ("acoustic_encoder", ("res_unit1", "res_unit2", "res_unit3", "snake1", "conv1")),
    "decoder_2.model": ("acoustic_decoder", ("snake1", "conv_t1", "res_unit1", "res_unit2", "res_unit3")),
}
"""By the name of a list of layers: its name in transformers, and the parts of each of its blocks."""
_OTHERS = {
    "quantizer.vq.layers.": "quantizer.quantizers.",
    "._codebook.": ".codebook.",
    "fc_prior.": "fc.",
    "fc_post1.": "fc1.",
    "fc_post2.": "fc2.",
    ".conv.conv.": ".conv.",
    ".conv1.conv.": ".conv1.",
    ".conv2.conv.": ".conv2.",
}


def open_codec(folder: Path) -> Tensors:
    """Returns the codec's tensors by the names of transformers.

    `model.pth` is read if no safetensors file has the codec's tensors. One published repository had another model's
    weights in `model.safetensors`, beside the codec's `model.pth`.
    """
    safe = any((folder / name).is_file() for name in (SINGLE, INDEX))
    original = folder / ORIGINAL
    if original.is_file() and (not safe or "fc2.weight" not in Weights(folder)):
        return TensorsInMemory(original, renamed(read_file(original)))
    return Weights(folder)


def renamed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors of the original layout by the names of transformers, weight norm folded.

    The semantic model has the same names in both, and keeps its one weight norm.
    """
    semantic = {name: tensor for name, tensor in tensors.items() if name.startswith("semantic_model.")}
    unused = {name for name in tensors if name.startswith("fc1.")}
    others = {name: tensor for name, tensor in tensors.items() if name not in semantic and name not in unused}
    return semantic | {_new_name(name): tensor for name, tensor in fold_weight_norm(others).items()}


def _new_name(name: str) -> str:
    if listed := re.fullmatch(r"(encoder\.block|decoder_2\.model)\.(\d+)\.(.+)", name):
        half, parts = _HALVES[listed[1]]
        try:
            return f"{half}.{_in_half(int(listed[2]), listed[3].split('.'), parts)}"
        except (IndexError, ValueError):  # no such layer: the name is reported when tensors are read
            return name
    for old, new in _OTHERS.items():
        name = name.replace(old, new)
    return name


def _in_half(index: int, rest: list[str], parts: tuple[str, ...]) -> str:
    """Returns the name inside an encoder or decoder: a convolution, blocks, an activation and a convolution."""
    if rest[0] != "block":
        return f"{'snake1' if rest[0] == 'alpha' else 'conv1' if index == 0 else 'conv2'}.{rest[0]}"
    inner = [_UNIT[int(rest[3])], *rest[4:]] if rest[2] == "block" else rest[2:]
    return ".".join([f"block.{index - 1}", parts[int(rest[1])], *inner])
