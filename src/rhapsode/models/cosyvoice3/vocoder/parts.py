"""The vocoder, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from rhapsode.checkpoints.files import read_file
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory
from rhapsode.models.base import StageContext
from rhapsode.models.parts import fill
from rhapsode.nn import kernels
from rhapsode.nn.hift.net import HiftNet
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.hift.source import F0Net

F0 = "f0_predictor."


def hift_tensors(file: Path) -> Tensors:
    """Returns the tensors of `hift.pt`, with weight norm folded."""
    found = {name.removeprefix("generator."): tensor for name, tensor in read_file(file).items()}
    return TensorsInMemory(file, fold_weight_norm(found))


def hift_net(settings: HiftSettings, context: StageContext, tensors: Callable[[], Tensors]) -> HiftNet:
    """Returns the vocoder on its device. It runs in full precision: spectra of loud sounds need it."""
    dtype = torch.promote_types(getattr(torch, context.dtype), torch.float32)
    read: list[Tensors] = []  # the file is read once

    def source() -> Tensors:
        if not read:
            read.append(tensors())
        return read[0]

    f0 = fill(lambda: F0Net(settings), context, source, prefix=F0, dtype=torch.float64)
    net = fill(lambda: HiftNet(settings), context, source, ignore=(f"{F0}*",), dtype=dtype)
    net.spectrum.to(dtype)
    net.f0_predictor = f0
    if context.dtype in ("bfloat16", "float16") and kernels.on(net.conv_post.weight):
        from rhapsode.nn.fused.hift import fuse  # which needs Triton

        fuse(net, torch.float16)
    return net
