"""A layer of a diffusion transformer."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.attention import AttentionBackend, FusedAttentionBackend
from rhapsode.nn.dit.config import DiTConfig
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.kernels.modulated_norm import GatedUpdate, Modulation, modulated_norm
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.linear import FusedLinear, linear


class DiTLayer(nn.Module):
    """Attention and a feed-forward network, each after an adaptive norm and before a gate."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self._config = config
        self.qkv = FusedLinear(config.dim, (config.inner,) * 3, bias=True)
        self.o_proj = nn.Linear(config.inner, config.dim)
        self.fc1 = nn.Linear(config.dim, config.ffn)
        self.fc2 = nn.Linear(config.ffn, config.dim)

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
        dtype, eps = self.fc1.weight.dtype, self._config.eps
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = table.unbind(0)  # [dim] each
        residual, normed = modulated_norm(residual, Modulation(scale, shift), eps, dtype, added)
        added = GatedUpdate(self._attend(normed, layer, rotary, backend), gate)
        residual, normed = modulated_norm(residual, Modulation(ffn_scale, ffn_shift), eps, dtype, added)
        fed = linear(linear(normed, self.fc1, activation="gelu_tanh"), self.fc2)
        return residual, GatedUpdate(fed, ffn_gate)

    def _attend(self, x: Tensor, layer: int, rotary: RotaryAngles, backend: AttentionBackend) -> Tensor:
        count, width, rotated = self._config.heads, self._config.head_dim, self._config.rotated
        heads = ProjectedHeads(linear(x, self.qkv), count, count, width, rotary=rotary, rotated=rotated)
        if isinstance(backend, FusedAttentionBackend):
            return linear(backend.attend_heads(layer, heads), self.o_proj)
        return linear(backend.attend(layer, *heads.split()).flatten(2), self.o_proj)
