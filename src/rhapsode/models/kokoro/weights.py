"""Reads the weights of a checkpoint: as they are published, or from an ONNX export."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from rhapsode.checkpoints.files import unpickle
from rhapsode.checkpoints.onnx import read_onnx
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.models.kokoro.export import weights_of
from rhapsode.models.kokoro.folder import CheckpointFiles, files_of

PARTS = ("bert", "bert_encoder", "predictor", "decoder", "text_encoder")
WRAPPED = "module."
"""What the names of a network begin with that was trained on several devices."""
UNUSED = ("bert.pooler.*", "bert.embeddings.position_ids")


def read_weights(folder: Path) -> TensorsInMemory:
    """Returns all tensors of a checkpoint's folder, by part and name, with weight norm folded."""
    files = files_of(folder)
    first = files.weights[0]
    if files.is_export:
        return TensorsInMemory(first, weights_of(read_onnx(_joined(files), str(first))))
    return TensorsInMemory(first, fold_weight_norm(_without_identities(_named(first), first)))


def _joined(files: CheckpointFiles) -> bytearray:
    content = bytearray()
    for file in files.weights:
        content += file.read_bytes()
    if files.sha256 is not None and hashlib.sha256(content).hexdigest() != files.sha256:
        raise CheckpointError(
            f"the weights in {files.weights[0].parent.parent} are damaged or another version: SHA-256 of the joined "
            f"shards must be {files.sha256}. Remove the folder and install the packages again."
        )
    return content


def _named(file: Path) -> dict[str, Tensor]:
    content = unpickle(file)
    if not isinstance(content, Mapping) or set(content) != set(PARTS):
        raise CheckpointError(f"{file} must hold the parts {', '.join(PARTS)}.")
    found: dict[str, Tensor] = {}
    for part, tensors in content.items():
        if not isinstance(tensors, Mapping) or not all(isinstance(one, Tensor) for one in tensors.values()):
            raise CheckpointError(f"'{part}' of {file} must hold tensors by name.")
        found |= {f"{part}.{name.removeprefix(WRAPPED)}": tensor for name, tensor in tensors.items()}
    return found


def _without_identities(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """Leaves out gains and biases of instance norms: newer code stores some, which are never trained."""
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        is_gain = name.endswith(".norm.weight")
        if not is_gain and not name.endswith(".norm.bias"):
            kept[name] = tensor
        elif not torch.equal(tensor, torch.full_like(tensor, float(is_gain))):
            raise CheckpointError(f"'{name}' of {file} is no identity: instance norms here have no weights.")
    return kept
