"""The sizes of chunks: small at first, so that sound starts early, then larger."""

from __future__ import annotations

from bisect import bisect_right

from rhapsode.config import ChunkConfig


class ChunkSchedule:
    """Chunk sizes in blocks: first, first * growth, ... up to the largest.

    Where launches are captured, only sizes of the `ladder` are used: the last 13 blocks are sent as 8 + 4 + 1.
    """

    def __init__(self, config: ChunkConfig, captured: bool, blocks_per_frame: float = 1.0) -> None:
        """`blocks_per_frame`: the configuration counts frames of the talker, a schedule counts blocks of its stage."""
        self._blocks_per_frame = blocks_per_frame
        self.first = max(1, int(config.first * blocks_per_frame))
        self.largest = max(1, int(config.largest * blocks_per_frame))
        self._growth = config.growth
        self._captured = captured
        ladder = [1]
        while ladder[-1] * config.growth <= self.largest:
            ladder.append(ladder[-1] * config.growth)
        self.ladder = sorted({*ladder, self.first, self.largest})

    def asked(self, frames: int) -> int:
        """Returns the first chunk, in blocks, of a request that asked for so many frames of the talker: where launches
        are captured, the next smaller size of the ladder."""
        return self.fit(min(max(1, int(frames * self._blocks_per_frame)), self.largest))

    def after(self, blocks: int) -> int:
        """Returns the size of the chunk after one of this many blocks."""
        return min(blocks * self._growth, self.largest)

    def fit(self, blocks: int) -> int:
        """Returns the size of the largest chunk that this many blocks fill."""
        return self.ladder[bisect_right(self.ladder, blocks) - 1] if self._captured else blocks
