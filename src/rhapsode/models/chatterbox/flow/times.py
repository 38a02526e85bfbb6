"""The times of the flow's steps. They are known, so what the estimator adds for each of them is computed once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.flow.sizes import EstimatorSizes
from rhapsode.nn.flow import sinusoids

TIME_SCALE = 1000.0


class EstimatorTimes(nn.Module):
    """The embedding of a time, and the layer of each block that takes it."""

    def __init__(self, sizes: EstimatorSizes) -> None:
        super().__init__()
        time, self._waves = sizes.time, sizes.waves
        self.time_mlp = nn.ModuleDict({"linear_1": nn.Linear(sizes.waves, time), "linear_2": nn.Linear(time, time)})
        self.time_embed_mixer = nn.Linear(2 * time, time, bias=False) if sizes.meanflow else None
        self.down, self.up = _layer(sizes), _layer(sizes)
        self.mid = nn.ModuleList(_layer(sizes) for _ in range(sizes.mid_blocks))

    def table(self, starts: Tensor, ends: Tensor) -> Tensor:
        """Returns what the blocks add at each step, `[steps, blocks, channels]`, for the times `[steps]` of steps."""
        embedded = self._embedded(starts)
        if self.time_embed_mixer is not None:
            embedded = self.time_embed_mixer(torch.cat((embedded, self._embedded(ends)), dim=1))
        active = F.mish(embedded)
        return torch.stack([layer["time"](active) for layer in (self.down, *self.mid, self.up)], dim=1)

    def _embedded(self, times: Tensor) -> Tensor:
        waves = torch.cat(sinusoids(times * TIME_SCALE, self._waves, self._waves // 2 - 1), dim=-1)
        return self.time_mlp["linear_2"](F.silu(self.time_mlp["linear_1"](waves)))


def _layer(sizes: EstimatorSizes) -> nn.ModuleDict:
    return nn.ModuleDict({"time": nn.Linear(sizes.time, sizes.channels)})


TIME_NAMES = {"down.": "down_blocks.0.", "mid.": "mid_blocks.", "up.": "up_blocks.0.", ".time.": ".0.mlp.1."}
"""What the checkpoint calls these tensors."""
TIME_IGNORE = (
    "*_blocks.*.0.block*",
    "*_blocks.*.0.res_conv.*",
    "*_blocks.*.1.*",
    "*_blocks.0.2.*",
    "final_*",
)
"""Tensors of the checkpoint that `Estimator` loads."""
