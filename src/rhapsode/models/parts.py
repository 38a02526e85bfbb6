"""Builds the networks of a checkpoint, and fills them with its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from rhapsode.checkpoints.load import load
from rhapsode.checkpoints.random import randomize
from rhapsode.checkpoints.uninitialised import on_meta
from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError, ConfigError
from rhapsode.models.base import StageContext
from rhapsode.nn.decoder import DecoderLayer
from rhapsode.nn.derived import derive
from rhapsode.nn.quantised import Int8Quantised, Quantised, quantise

Net = TypeVar("Net", bound=nn.Module)


def fill(
    build: Callable[[], Net],
    context: StageContext,
    source: Callable[[], Path | Tensors],
    *,
    prefix: str = "",
    ignore: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Net:
    """Returns a network on its device, filled with the tensors of `source`, or with random ones if the deployment
    says so. `prefix`, `ignore` and `names` are those of `checkpoints.load`.

    If the deployment asks for 8-bit weights, decoder layers are quantised. Heads and embeddings are not: they are a
    small part of the bytes that a frame reads, and an error there changes what is sampled.
    """
    with on_meta():
        net = build()
    if context.random_weights:
        randomize(net, device=context.device, dtype=dtype)
    else:
        load(net, source(), prefix=prefix, device=context.device, dtype=dtype, ignore=ignore, names=names)
    derive(net)
    if context.weights != "auto":
        kind = _quantised_as(context)
        for layer in net.modules():
            if isinstance(layer, DecoderLayer):
                quantise(layer, kind)
    return net.eval()


def _quantised_as(context: StageContext) -> type[Quantised] | type[Int8Quantised]:
    if context.weights == "fp8":
        return Quantised
    if context.device != "cpu":
        raise ConfigError("weights: int8 is for CPUs; on a GPU use fp8.")
    return Int8Quantised


def checkpoint_of(context: StageContext) -> Path:
    if context.checkpoint is None:
        raise CheckpointError(f"{context.spec.name} needs a checkpoint: give its folder or its Hugging Face id.")
    return context.checkpoint
