"""How full an engine is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rhapsode.engine.stage import Usage
from rhapsode.voices.cache import CacheStats

NOTHING_KEPT = CacheStats(0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Load(Usage):
    """What the engine holds now, and what it has done since it started."""

    slots: int
    slots_in_use: int = 0
    queued: int = 0
    places: int = 0
    """How many listeners can be served faster than real time, by the measured pace."""
    references: CacheStats = NOTHING_KEPT
    """The cache of encoded references."""
    slow_turns: Mapping[str, int] = field(default_factory=dict)
    """Turns of the device loop longer than 50 ms, by stage."""
    longest_turns_s: Mapping[str, float] = field(default_factory=dict)
    """The longest turn of the device loop, by stage."""
    device_bytes: int | None = None
    """Tensors in the memory of the GPUs, if any is used."""
