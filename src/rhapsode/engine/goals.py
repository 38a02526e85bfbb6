"""What a scheduler of chunks aims at: one set of numbers for each kind of device."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class ChunkGoals:
    """When chunks are decoded, and how large they are. The defaults are those of a GPU, whose launches go on while the
    host plans the next ones. `comfort_s` and `patience_s` of the deployment are goals, too."""

    in_launch_order: bool = False
    """Each row's chunks follow the schedule, whatever the clock and the other rows do: for deterministic mode."""
    first_blocks: int = 4
    first_s: float = 0.32
    """The most that a first chunk waits for, unless the request asks for more: so many blocks, or so many seconds of
    audio if these are more."""
    second_s: float = 0.16
    """Seconds of audio that must be made while a first chunk plays. The second chunk may be planned larger: a listener
    who would underrun soon gets the blocks that are ready."""
    spare: float = 2.0
    """A first chunk must last longer than the second one takes, by this many times `patience_s`: under load, audio is
    also sent late."""
    busy: float = 0.15
    """From this real-time factor of the talker on, listeners need larger first chunks."""
    negligible: float = 0.1
    """If one block for every listener takes less than this part of a block's playing time, launches cost nothing."""
    delivery_s: float = 0.065
    """How long audio may take from a launch to its listener, under load."""
    yields_above_s: float = 0.25
    """A launch whose listeners all have more than this left waits for the talker's next frame, if `between_frames`
    launches have followed the last one."""
    between_frames: int = 2
    enough_s: float = inf
    """A later chunk waits for no more audio than this. It is longer if more has arrived."""
    reserve: float = 0.5
    """Launches may take this part of the time until a listener runs out of audio, so that others are served, too."""
    newcomer_s: float = 0.04
    """While another listener has heard nothing yet, the launch of a later chunk takes no longer than this."""
    dry_s: float = 0.08
    """On a CPU the talker's next frame goes first while a listener without a block that is ready has less than this."""
    least_s: float = 0.08
    least_blocks: int = 2
    """Lack of time makes no chunk shorter than `least_s`: below it, a launch costs the same, however short the chunk
    is. And no launch has fewer than `least_blocks`: the halves of a codec's work overlap only inside a launch."""


GPU = ChunkGoals()
CPU = ChunkGoals(spare=1.3, busy=0.4, delivery_s=0.02, enough_s=0.32)
DETERMINISTIC = ChunkGoals(in_launch_order=True)
