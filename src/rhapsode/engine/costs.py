"""What the next blocks of audio cost, as measured while the engine runs."""

from __future__ import annotations

from rhapsode.engine.pace import Pace

PROMPT_S = 0.0005
"""How long the prompt of one joining request delays the frames of the others on a GPU, as one of many in a launch."""
MEMORY = 0.9
"""How much of the earlier measurements of launches is kept when a new one is added."""


class ChunkCosts:
    """The seconds that a talker needs for a block of frames, and its codec for decoding it.

    A GPU decodes while the host and the talker go on, so launches cost other listeners nothing. A CPU works on one
    launch at a time (`inline`), and all other listeners wait for it.
    """

    def __init__(self, block_s: float, talker: Pace | None = None, inline: bool = False) -> None:
        """`block_s`: how long a block plays. `talker`: its pace, which its own stage measures."""
        self.block_s = block_s
        self.talker = talker or Pace()
        self.inline = inline
        self.launch_s = 0.0
        """For how long all other listeners wait while one block of one row is decoded."""
        self._took_s = self._blocks = 0.0  # of recent launches: two sums that decay

    def add(self, took_s: float, blocks: int, beside_talker: bool) -> None:
        """Adds a measured launch. One without the talker beside it is faster, and counts only if it is the first."""
        if self.inline and (beside_talker or not self.launch_s):
            self._took_s = MEMORY * self._took_s + took_s
            self._blocks = MEMORY * self._blocks + blocks
            self.launch_s = self._took_s / self._blocks

    def frame_s(self, listeners: int, joining: int, most_prompts_s: float) -> float:
        """Returns the seconds until the talker has made one more block for every listener; 0 if that is unknown."""
        if not self.talker.known:
            return 0.0
        frame_s = self.talker.at(listeners) * self.block_s
        if self.inline:  # on a CPU prompts take turns
            return frame_s
        return frame_s + min(joining * PROMPT_S, most_prompts_s)
