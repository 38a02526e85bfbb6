"""The vocoder, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.chatterbox.shapes import TensorShapes
from rhapsode.models.parts import fill
from rhapsode.nn.hift.sampled_source import SymmetricF0Net
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.hift.symmetric import SymmetricHift

PREFIX, F0 = "mel2wav.", "f0_predictor."
SAMPLE_RATE = 24_000
RATES, KERNELS = (8, 5, 3), (16, 11, 7)
BLOCK_KERNELS, SOURCE_KERNELS, DILATIONS = (3, 7, 11), (7, 7, 11), [1, 3, 5]
N_FFT, HOP = 16, 4
NAMES = {f"ups.{i}.conv.": f"ups.{i}." for i in range(len(RATES))}
"""What the checkpoint calls these tensors."""


def s3_vocoder_net(context: StageContext, tensors: Callable[[], Tensors]) -> SymmetricHift:
    """Returns the vocoder on its device. It runs in full precision: spectra of loud sounds need it. The fundamental
    frequencies are in float64, because their errors add up in the phase.

    `tensors` returns those of the file `s3gen`, of any kind; it is called once.
    """
    dtype = torch.promote_types(getattr(torch, context.dtype), torch.float32)
    given = tensors()
    folded = given if context.random_weights else _folded(given)
    settings = s3_vocoder_settings(TensorShapes(folded, PREFIX if context.random_weights else ""))

    def source() -> Tensors:
        return folded

    f0 = fill(lambda: SymmetricF0Net(settings), context, source, prefix=F0, dtype=torch.float64)
    net = fill(lambda: _without_f0(settings), context, source, names=NAMES, ignore=(f"{F0}*",), dtype=dtype)
    net.spectrum.to(dtype)
    net.f0_predictor = f0
    return net


def _without_f0(settings: HiftSettings) -> SymmetricHift:
    net = SymmetricHift(settings)
    del net.f0_predictor
    return net


def _folded(tensors: Tensors) -> Tensors:
    """Returns the tensors of the vocoder, with weight norm folded."""
    ours = [name for name in tensors if name.startswith(PREFIX)]
    if not ours:
        raise CheckpointError(f"{tensors.folder} holds no tensors of a vocoder: none is named '{PREFIX}...'.")
    found = {name.removeprefix(PREFIX): tensors.read(name) for name in ours}
    return TensorsInMemory(tensors.file_of(ours[0]), fold_weight_norm(found))


def s3_vocoder_settings(found: TensorShapes) -> HiftSettings:
    """Returns the settings: those that a tensor shows from its shape, the others as they are published."""
    return HiftSettings(
        in_channels=found.size("conv_pre.weight", 1),
        base_channels=found.size("conv_pre.weight"),
        nb_harmonics=found.size("m_source.l_linear.weight", 1) - 1,
        sampling_rate=SAMPLE_RATE,
        upsample_rates=RATES,
        upsample_kernel_sizes=KERNELS,
        n_fft=N_FFT,
        hop_len=HOP,
        resblock_kernel_sizes=BLOCK_KERNELS,
        resblock_dilation_sizes=(DILATIONS,) * len(BLOCK_KERNELS),
        source_resblock_kernel_sizes=SOURCE_KERNELS,
        source_resblock_dilation_sizes=(DILATIONS,) * len(SOURCE_KERNELS),
        conv_pre_look_right=found.size("conv_pre.weight", 2) // 2,
        f0_channels=found.size(f"{F0}classifier.weight", 1),
        nsf_voiced_threshold=10.0,
    )
