"""The spec of Chatterbox."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.models.base import Ranged


@dataclass(frozen=True)
class ChatterboxSettings(Ranged):
    t3: str = "auto"
    """Which T3 of the checkpoint is loaded: `original`, `multilingual`, `turbo`, `nano`, or the name of its file, such
    as `t3_mtl23ls_v3`. `auto` takes the first of these that the checkpoint has; of two multilingual ones, `v2`."""
    guidance: bool = True
    """Whether requests can set `cfg_weight`. Without it each request has one sequence in place of two, half the memory
    and half the work; Turbo and Nano have no guidance anyway."""
