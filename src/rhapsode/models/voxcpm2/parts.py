"""Parts of a checkpoint, built and filled: the talker, and the VAE's two halves."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from rhapsode.checkpoints.files import first_of, read_file
from rhapsode.checkpoints.lora import WithLora
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory, Weights
from rhapsode.models.base import StageContext
from rhapsode.models.parts import checkpoint_of, fill
from rhapsode.models.voxcpm2.config import VaeConfig, VoxConfig
from rhapsode.models.voxcpm2.net import VoxNet
from rhapsode.models.voxcpm2.spec import VoxSettings
from rhapsode.models.voxcpm2.vae import VaeDecoder, VaeEncoder
from rhapsode.nn import kernels

VAE_FILES = ("audiovae.safetensors", "audiovae.pth")


def talker(config: VoxConfig, context: StageContext) -> VoxNet:
    dtype: torch.dtype = getattr(torch, context.dtype)
    settings: VoxSettings = context.settings

    def weights() -> Tensors:
        stored = Weights(checkpoint_of(context))
        if not settings.lora:
            return stored
        return WithLora(stored, Path(settings.lora).expanduser(), settings.lora_alpha or None)

    return fill(lambda: VoxNet(config, dtype, settings.max_timesteps), context, weights, dtype=dtype)


def encoder(context: StageContext) -> VaeEncoder:
    only_for_training = ("fc_logvar.*",)
    return fill(
        lambda: VaeEncoder(_vae(context)),
        context,
        lambda: _vae_weights(context),
        prefix="encoder.",
        ignore=only_for_training,
    )


def decoder(context: StageContext) -> VaeDecoder:
    """Returns the VAE's decoder in float32, as upstream, or in float64 if the deployment asks for that.

    Where kernels run and the talker has 16 bits, products use float16: it has as many digits as TF32, which cuDNN uses.
    Sums and the residual stream stay float32.
    """
    dtype = torch.float64 if context.dtype == "float64" else torch.float32
    known = ("sr_bin_boundaries",)
    net = fill(
        lambda: VaeDecoder(_vae(context)),
        context,
        lambda: _vae_weights(context),
        prefix="decoder.",
        ignore=known,
        dtype=dtype,
    )
    if context.dtype in ("bfloat16", "float16") and kernels.on(torch.empty(0, device=context.device)):
        from rhapsode.models.voxcpm2.fused import fuse  # which needs Triton

        fuse(net, torch.float16)
    return net


def _vae(context: StageContext) -> VaeConfig:
    return VaeConfig.from_dict(context.config.get("audio_vae_config"))


def _vae_weights(context: StageContext) -> Tensors:
    """Returns the VAE's tensors: weight norm is folded, and each condition is named as a part of its block."""
    file = first_of(checkpoint_of(context), *VAE_FILES)
    tensors: dict[str, Tensor] = {}
    for name, tensor in fold_weight_norm(read_file(file), inside="conv.").items():
        owner, found, rest = name.partition("sr_cond_model.")
        number, _, leaf = rest.partition(".")
        tensors[f"{owner}model.{number}.condition.{leaf}" if found else name] = tensor
    return TensorsInMemory(file, tensors)
