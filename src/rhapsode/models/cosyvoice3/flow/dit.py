"""The diffusion transformer of the flow: predicts velocities of mel frames."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.cosyvoice3.flow.modulation import FlowTables
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.nn.attention import AttentionBackend, FusedAttentionBackend
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.grouped_conv import grouped_mish_conv
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.kernels.modulated_norm import GatedUpdate, Modulation, modulated_norm
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.linear import FusedLinear, linear

GROUPS, KERNEL = 16, 31
"""Sizes of the convolutions that encode the positions of frames."""
EPS = 1e-6


class FlowHistory(Protocol):
    """What the transformer needs of earlier frames, for each Euler step."""

    positions: Tensor
    """Positions of the frames, counted from the start of the prompt, `[2 * B or 1, T]`."""

    def extend(self, step: int, conv: int, x: Tensor) -> Tensor:
        """Prepends the inputs that position convolution 0 or 1 had before `x [2 * B, T, dim]`."""

    def attention(self, step: int) -> AttentionBackend:
        """Returns the attention of one Euler step, for all layers: over the new frames and those before them."""


class PositionConv(Derived):
    """A causal grouped convolution over frames, and Mish."""

    matrix: Tensor  # [dim, KERNEL * inputs of a group]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim // GROUPS, KERNEL))
        self.bias = nn.Parameter(torch.empty(dim))
        self.register_buffer("matrix", None, persistent=False)

    def derive(self) -> None:
        self.matrix = self.weight.detach().transpose(1, 2).flatten(1).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[B, KERNEL - 1 + T, dim]` to `[B, T, dim]`."""
        return grouped_mish_conv(x, self.matrix, self.bias, GROUPS)


class FlowInput(nn.Module):
    """Projects mel frames and their conditions to the input rows of the transformer."""

    def __init__(self, mel: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(4 * mel, dim)
        self.position_convs = nn.ModuleList(PositionConv(dim) for _ in range(2))
        self._mel = mel

    def conditions(self, cond: Tensor, mu: Tensor, speaker: Tensor) -> Tensor:
        """Returns the part of the projection that all steps share, `[2 * B, T, dim]`: conditional, unconditional."""
        given = torch.cat((cond, mu, speaker[:, None].expand_as(mu)), dim=-1).to(self.proj.weight.dtype)
        told = F.linear(given, self.proj.weight[:, self._mel :], self.proj.bias)
        return torch.cat((told, self.proj.bias.expand_as(told)))

    def forward(self, x: Tensor, conditions: Tensor, step: int, history: FlowHistory) -> Tensor:
        """Returns `[2 * B, T, dim]` for `x [B, T, mel]`, which both halves share."""
        weight = self.proj.weight[:, : self._mel]
        rows = conditions + F.linear(x.to(weight.dtype), weight).repeat(2, 1, 1)
        hidden = rows
        for i, conv in enumerate(self.position_convs):
            hidden = conv(history.extend(step, i, hidden))
        return rows + hidden


class FlowLayer(nn.Module):
    """Attention with a rotary embedding of the first head alone, and a feed-forward network."""

    def __init__(self, settings: FlowSettings) -> None:
        super().__init__()
        sizes = settings.dit
        self.heads, self.head_dim = sizes.heads, sizes.dim_head
        self.qkv = FusedLinear(sizes.dim, (sizes.inner,) * 3, bias=True)
        self.o_proj = nn.Linear(sizes.inner, sizes.dim)
        self.fc1 = nn.Linear(sizes.dim, sizes.dim * sizes.ff_mult)
        self.fc2 = nn.Linear(sizes.dim * sizes.ff_mult, sizes.dim)

    def forward(
        self,
        residual: Tensor,
        added: GatedUpdate | None,
        table: Tensor,
        layer: int,
        rotary: RotaryAngles,
        backend: AttentionBackend,
    ) -> tuple[Tensor, GatedUpdate]:
        """Returns the residual, and the update that is not yet added to it. `added` is that of the layer before."""
        dtype = self.fc1.weight.dtype
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = table.unbind(0)  # [dim] each
        residual, normed = modulated_norm(residual, Modulation(scale, shift), EPS, dtype, added)
        added = GatedUpdate(self._attend(normed, layer, rotary, backend), gate)
        residual, normed = modulated_norm(residual, Modulation(ffn_scale, ffn_shift), EPS, dtype, added)
        fed = linear(linear(normed, self.fc1, activation="gelu_tanh"), self.fc2)
        return residual, GatedUpdate(fed, ffn_gate)

    def _attend(self, x: Tensor, layer: int, rotary: RotaryAngles, backend: AttentionBackend) -> Tensor:
        heads = ProjectedHeads(linear(x, self.qkv), self.heads, self.heads, self.head_dim, rotary=rotary, rotated=1)
        if isinstance(backend, FusedAttentionBackend):
            return linear(backend.attend_heads(layer, heads), self.o_proj)
        return linear(backend.attend(layer, *heads.split()).flatten(2), self.o_proj)


class DiT(nn.Module):
    """Predicts velocities of frames, with and without their conditions, at one of the fixed times."""

    blocks: Tensor
    final: Tensor
    inv_freq: Tensor

    def __init__(self, settings: FlowSettings) -> None:
        super().__init__()
        self.input_embed = FlowInput(settings.output_size, settings.dit.dim)
        self.transformer_blocks = nn.ModuleList(FlowLayer(settings) for _ in range(settings.dit.depth))
        self.proj_out = nn.Linear(settings.dit.dim, settings.output_size)
        for name in FlowTables._fields:
            self.register_buffer(name, None, persistent=False)

    def set_tables(self, tables: FlowTables) -> None:
        for name, table in tables._asdict().items():
            setattr(self, name, table)

    def angles(self, positions: Tensor) -> RotaryAngles:
        """Returns the rotary angles of `positions [B, T]`."""
        angle = positions[..., None, None].to(self.inv_freq.dtype) * self.inv_freq  # [B, T, 1, D / 2]
        cos, sin, dtype = angle.cos(), angle.sin(), self.proj_out.weight.dtype
        return RotaryAngles(torch.cat((cos, cos), dim=-1).to(dtype), torch.cat((-sin, sin), dim=-1).to(dtype))

    def forward(self, x: Tensor, conditions: Tensor, step: int, rotary: RotaryAngles, history: FlowHistory) -> Tensor:
        """Returns velocities `[2 * B, T, mel]` of `x [B, T, mel]`: conditional, then unconditional."""
        dtype, backend = self.proj_out.weight.dtype, history.attention(step)
        residual = self.input_embed(x, conditions, step, history).to(x.dtype)
        added: GatedUpdate | None = None
        for i, layer in enumerate(self.transformer_blocks):
            residual, added = layer(residual, added, self.blocks[step, i], i, rotary, backend)
        scale, shift = self.final[step].unbind(0)
        _, normed = modulated_norm(residual, Modulation(scale, shift), EPS, dtype, added)
        return linear(normed, self.proj_out)


NAMES = {
    "position_convs.0": "conv_pos_embed.conv1.0",
    "position_convs.1": "conv_pos_embed.conv2.0",
    "q_proj": "attn.to_q",
    "k_proj": "attn.to_k",
    "v_proj": "attn.to_v",
    "o_proj": "attn.to_out.0",
    "fc1": "ff.ff.0.0",
    "fc2": "ff.ff.2",
}
"""What the checkpoint calls these tensors."""
IGNORE = ("time_embed.*", "rotary_embed.*", "transformer_blocks.*.attn_norm.*", "norm_out.*")
"""Tensors of the checkpoint that the tables replace."""
