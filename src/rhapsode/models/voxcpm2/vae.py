"""The causal VAE: 16 kHz audio to latents in one pass, latents to 48 kHz audio in chunks of any size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.models.voxcpm2.config import VaeConfig
from rhapsode.nn.derived import Derived
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import (
    CausalConv1d,
    CausalConvTranspose1d,
    ChainState,
    StreamingBlock,
    StreamingChain,
    join_tails,
)

KERNEL = 7
DILATIONS = (1, 3, 9)


class VaeUnit(StreamingBlock):
    """A residual unit."""

    def __init__(self, dim: int, dilation: int, depthwise: bool) -> None:
        super().__init__()
        groups = dim if depthwise else 1
        self.block = StreamingChain(
            Snake(dim),
            CausalConv1d(dim, dim, KERNEL, dilation=dilation, groups=groups),
            Snake(dim),
            CausalConv1d(dim, dim, 1),
        )

    def forward(self, x: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        return x + self.block(x, slots, state)


def units(dim: int, depthwise: bool) -> Iterator[VaeUnit]:
    return (VaeUnit(dim, dilation, depthwise) for dilation in DILATIONS)


# --- audio to latents ---


class VaeDownsampleBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, rate: int, depthwise: bool) -> None:
        super().__init__()
        down = CausalConv1d(inputs, outputs, 2 * rate, rate)
        self.block = nn.Sequential(*units(inputs, depthwise), Snake(inputs), down)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class VaeEncoder(nn.Module):
    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        self.config = config
        dims = [config.encoder_dim << i for i in range(len(config.encoder_rates) + 1)]
        blocks = (
            VaeDownsampleBlock(*dim, rate, config.depthwise)
            for dim, rate in zip(pairwise(dims), config.encoder_rates, strict=True)
        )
        self.block = nn.Sequential(CausalConv1d(1, dims[0], KERNEL), *blocks)
        self.fc_mu = CausalConv1d(dims[-1], config.latent_dim, 3)

    def forward(self, audio: Tensor) -> Tensor:
        """Encodes `audio [B, 1, N]` as `[B, latent, N / hop]`."""
        return self.fc_mu(self.block(audio))

    @torch.inference_mode()
    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encodes `samples [N]`, a multiple of the hop, as `[N / hop, latent]`."""
        weight = self.fc_mu.conv.weight
        audio = torch.from_numpy(samples).to(weight.device, weight.dtype)
        return self(audio[None, None])[0].T.float().cpu().numpy()


# --- latents to audio ---


class RateCondition(Derived):
    """Conditions the decoder on the output's sample rate: a scale and a bias per channel, constant for a checkpoint."""

    scale: Tensor  # [C, 1]
    bias: Tensor  # [C, 1]

    def __init__(self, dim: int, sample_rate: int, boundaries: tuple[int, ...]) -> None:
        super().__init__()
        self._rate = sum(sample_rate > boundary for boundary in boundaries)
        self.scale_embed = nn.Embedding(len(boundaries) + 1, dim)
        self.bias_embed = nn.Embedding(len(boundaries) + 1, dim)
        self.register_buffer("scale", None, persistent=False)
        self.register_buffer("bias", None, persistent=False)

    def derive(self) -> None:
        self.scale = self.scale_embed.weight[self._rate, :, None].detach()
        self.bias = self.bias_embed.weight[self._rate, :, None].detach()

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, x, self.scale)


class VaeUpsampleBlock(StreamingBlock):
    def __init__(self, inputs: int, outputs: int, rate: int, config: VaeConfig) -> None:
        super().__init__()
        bins = config.sr_bin_boundaries
        self.condition = nn.Identity() if bins is None else RateCondition(inputs, config.out_sample_rate, bins)
        up = CausalConvTranspose1d(inputs, outputs, 2 * rate, rate)
        self.block = StreamingChain(Snake(inputs), up, *units(outputs, config.depthwise))

    def forward(self, x: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        return super().forward(self.condition(x), slots, state)


class VaeState(State):
    """The state of all convolutions is one buffer; modules have views of it."""

    def __init__(self, model: StreamingChain, slots: int, dtype: torch.dtype | None = None) -> None:
        """`dtype`: of the tails, if kernels use them."""
        self.model = model.state(slots)
        tails = join_tails([self.model])
        self.tails = tails if dtype is None else tails.to(dtype)  # [slots + 1, all tails]

    def tensors(self) -> Iterator[Tensor]:
        yield self.tails


class VaeSlotDecoder(Protocol):
    """Decodes slots by fused kernels."""

    dtype: torch.dtype

    def __call__(self, latents: Tensor, slots: Tensor, state: VaeState) -> Tensor: ...


class VaeDecoder(nn.Module):
    """Decodes latents to samples. Without slots, it decodes whole sequences in one pass.

    With slots, it uses `fused` where kernels run (see `fused.py`); the modules are the reference.
    """

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        self.config = config
        self.fused: VaeSlotDecoder | None = None
        latent, dims = config.latent_dim, [config.decoder_dim >> i for i in range(len(config.decoder_rates) + 1)]
        begin = (
            [CausalConv1d(latent, latent, KERNEL, groups=latent), CausalConv1d(latent, dims[0], 1)]
            if config.depthwise
            else [CausalConv1d(latent, dims[0], KERNEL)]
        )
        blocks = (
            VaeUpsampleBlock(*dim, rate, config) for dim, rate in zip(pairwise(dims), config.decoder_rates, strict=True)
        )
        self.model = StreamingChain(*begin, *blocks, Snake(dims[-1]), CausalConv1d(dims[-1], 1, KERNEL), nn.Tanh())

    def state(self, slots: int) -> VaeState:
        return VaeState(self.model, slots, None if self.fused is None else self.fused.dtype)

    def forward(self, latents: Tensor, slots: Tensor | None = None, state: VaeState | None = None) -> Tensor:
        """Decodes `latents [B, n, latent]` to `[B, 1, n * hop]`, within [-1, 1]."""
        if self.fused is not None and slots is not None and state is not None:
            return self.fused(latents, slots, state)
        x = latents.transpose(1, 2).to(self._dtype)
        return self.model(x, slots, state and state.model)

    @property
    def _dtype(self) -> torch.dtype:
        first = self.model[0]
        assert isinstance(first, CausalConv1d)
        return first.conv.weight.dtype
