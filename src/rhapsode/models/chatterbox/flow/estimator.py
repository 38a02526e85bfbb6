"""The estimator of the flow: a U-Net of one level, which predicts velocities of mel frames.

Its convolutions see frames before a frame alone; its attention sees all frames of a sequence. Channels are last.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.flow.sizes import HEAD_DIM, EstimatorSizes
from rhapsode.nn.derived import Derived
from rhapsode.nn.linear import FusedLinear, linear

KERNEL = 3
INPUTS = 4
"""The estimator's inputs, of `mel` channels each: the frames, their condition, the speaker and the prompt."""
NORM_EPS = 1e-5


class FrameConv(Derived):
    """A causal convolution over frames `[B, T, C]`, as one matrix product."""

    matrix: Tensor  # [outputs, kernel * inputs]

    def __init__(self, inputs: int, outputs: int, kernel: int = KERNEL) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.register_buffer("matrix", None, persistent=False)

    def derive(self) -> None:
        self.matrix = self.weight.detach().transpose(1, 2).flatten(1).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        kernel, length = self.weight.shape[2], x.shape[1]
        if kernel > 1:
            padded = F.pad(x, (0, 0, kernel - 1, 0))
            x = torch.cat([padded[:, tap : tap + length] for tap in range(kernel)], dim=2)
        return F.linear(x.to(self.matrix.dtype), self.matrix, self.bias)


class ResidualNorm(nn.LayerNorm):
    """A layer norm of the residual stream, whose result has the type of the weights."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps).to(self.weight.dtype)


class ConvBlock(nn.Module):
    """A convolution, a norm and Mish."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv, self.norm = FrameConv(inputs, outputs), ResidualNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(self.norm(self.conv(x)))


class TimedResidual(nn.Module):
    """Two convolutions around the embedding of a time."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.block1, self.block2 = ConvBlock(inputs, outputs), ConvBlock(outputs, outputs)
        self.res_conv = FrameConv(inputs, outputs, kernel=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Maps `x [B, T, inputs]`; `time [outputs]` is added between the convolutions."""
        return self.block2(self.block1(x) + time) + self.res_conv(x).to(x.dtype)


class EstimatorLayer(nn.Module):
    """Attention over all frames that exist, and a feed-forward network."""

    def __init__(self, sizes: EstimatorSizes) -> None:
        super().__init__()
        self.norm1, self.norm3 = ResidualNorm(sizes.channels), ResidualNorm(sizes.channels)
        self.qkv = FusedLinear(sizes.channels, (sizes.inner,) * 3)
        self.o_proj = nn.Linear(sizes.inner, sizes.channels)
        self.fc1, self.fc2 = nn.Linear(sizes.channels, sizes.ffn), nn.Linear(sizes.ffn, sizes.channels)

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        heads = linear(self.norm1(x), self.qkv).unflatten(2, (3, -1, HEAD_DIM))  # [B, T, 3, heads, D]
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        x = x + linear(attended.transpose(1, 2).flatten(2), self.o_proj)
        return x + linear(linear(self.norm3(x), self.fc1, activation="gelu"), self.fc2)


class EstimatorBlock(nn.Module):
    """A timed residual and its transformer layers; `after` is a last convolution, where there is one."""

    def __init__(self, sizes: EstimatorSizes, inputs: int, *, with_conv: bool) -> None:
        super().__init__()
        self.residual = TimedResidual(inputs, sizes.channels)
        self.layers = nn.ModuleList(EstimatorLayer(sizes) for _ in range(sizes.layers))
        self.after = FrameConv(sizes.channels, sizes.channels) if with_conv else None

    def forward(self, x: Tensor, time: Tensor, visible: Tensor | None) -> Tensor:
        x = self.residual(x, time)
        for layer in self.layers:
            x = layer(x, visible)
        return x


class Estimator(nn.Module):
    """Predicts the velocities of frames from the frames and their conditions."""

    def __init__(self, sizes: EstimatorSizes) -> None:
        super().__init__()
        channels = sizes.channels
        self.down = EstimatorBlock(sizes, INPUTS * sizes.mel, with_conv=True)
        self.mid = nn.ModuleList(EstimatorBlock(sizes, channels, with_conv=False) for _ in range(sizes.mid_blocks))
        self.up = EstimatorBlock(sizes, 2 * channels, with_conv=True)
        self.final_block = ConvBlock(channels, channels)
        self.final_proj = FrameConv(channels, sizes.mel, kernel=1)

    def forward(self, x: Tensor, times: Tensor, visible: Tensor | None) -> Tensor:
        """Maps `x [B, T, INPUTS * mel]` to velocities `[B, T, mel]`.

        `times [blocks, channels]` is a row of `EstimatorTimes`; `visible [B, 1, 1, T]` hides frames that do not exist.
        """
        kind = x.dtype
        skipped = self.down(x, times[0], visible)
        x = _convolved(self.down, skipped).to(kind)
        for block, time in zip(self.mid, times[1:-1], strict=True):
            x = block(x, time, visible)
        x = self.up(torch.cat((x, skipped), dim=2), times[-1], visible)
        return self.final_proj(self.final_block(_convolved(self.up, x).to(kind))).to(kind)


def _convolved(block: EstimatorBlock, x: Tensor) -> Tensor:
    assert block.after is not None
    return block.after(x)


NAMES = {
    "down.": "down_blocks.0.",
    "mid.": "mid_blocks.",
    "up.": "up_blocks.0.",
    ".residual.": ".0.",
    ".layers.": ".1.",
    ".after.": ".2.",
    ".conv.": ".block.0.",
    ".norm.": ".block.2.",
    "q_proj": "attn1.to_q",
    "k_proj": "attn1.to_k",
    "v_proj": "attn1.to_v",
    "o_proj": "attn1.to_out.0",
    "fc1": "ff.net.0.proj",
    "fc2": "ff.net.2",
}
"""What the checkpoint calls these tensors."""
IGNORE = ("time_mlp.*", "time_embed_mixer.*", "*.mlp.1.*")
"""Tensors of the checkpoint that `EstimatorTimes` loads."""
