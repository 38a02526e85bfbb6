"""A diffusion transformer over frames, with guidance: both halves of a batch run in one launch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.dit.config import DiTConfig
from rhapsode.nn.dit.history import DiTHistory
from rhapsode.nn.dit.layer import DiTLayer
from rhapsode.nn.dit.modulation import DiTTables
from rhapsode.nn.dit.position_conv import PositionConv
from rhapsode.nn.kernels.modulated_norm import GatedUpdate, Modulation, modulated_norm
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.linear import linear


class DiTInput(nn.Module):
    """Projects frames and their conditions to the input rows of the transformer."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.proj = nn.Linear(config.features + config.conditions, config.dim)
        self.position_convs = nn.ModuleList(PositionConv(config.dim) for _ in range(2))
        self._features = config.features

    def conditions(self, given: Tensor) -> Tensor:
        """Returns the part of the projection that all steps share, `[2 * B, T, dim]`: conditional, unconditional.

        `given [B, T, conditions]` is what the conditional half is told.
        """
        told = F.linear(given.to(self.proj.weight.dtype), self.proj.weight[:, self._features :], self.proj.bias)
        return torch.cat((told, self.proj.bias.expand_as(told)))

    def forward(self, x: Tensor, conditions: Tensor, step: int, history: DiTHistory) -> Tensor:
        """Returns `[2 * B, T, dim]` for `x [B, T, features]`, which both halves share."""
        weight = self.proj.weight[:, : self._features]
        rows = conditions + F.linear(x.to(weight.dtype), weight).repeat(2, 1, 1)
        hidden = rows
        for i, conv in enumerate(self.position_convs):
            hidden = conv(history.extend(step, i, hidden))
        return rows + hidden


class DiT(nn.Module):
    """Predicts velocities of frames, with and without their conditions, at one of the fixed times."""

    blocks: Tensor
    final: Tensor
    inv_freq: Tensor

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self._eps = config.eps
        self.input_embed = DiTInput(config)
        self.transformer_blocks = nn.ModuleList(DiTLayer(config) for _ in range(config.depth))
        self.proj_out = nn.Linear(config.dim, config.features)
        for name in DiTTables._fields:
            self.register_buffer(name, None, persistent=False)

    def set_tables(self, tables: DiTTables) -> None:
        for name, table in tables._asdict().items():
            setattr(self, name, table)

    def angles(self, positions: Tensor) -> RotaryAngles:
        """Returns the rotary angles of `positions [B, T]`."""
        angle = positions[..., None, None].to(self.inv_freq.dtype) * self.inv_freq  # [B, T, 1, D / 2]
        cos, sin, dtype = angle.cos(), angle.sin(), self.proj_out.weight.dtype
        return RotaryAngles(torch.cat((cos, cos), dim=-1).to(dtype), torch.cat((-sin, sin), dim=-1).to(dtype))

    def forward(self, x: Tensor, conditions: Tensor, step: int, rotary: RotaryAngles, history: DiTHistory) -> Tensor:
        """Returns velocities `[2 * B, T, features]` of `x [B, T, features]`: conditional, then unconditional."""
        dtype, backend = self.proj_out.weight.dtype, history.attention(step)
        residual = self.input_embed(x, conditions, step, history).to(x.dtype)
        added: GatedUpdate | None = None
        for i, layer in enumerate(self.transformer_blocks):
            residual, added = layer(residual, added, self.blocks[step, i], i, rotary, backend)
        scale, shift = self.final[step].unbind(0)
        _, normed = modulated_norm(residual, Modulation(scale, shift), self._eps, dtype, added)
        return linear(normed, self.proj_out)
