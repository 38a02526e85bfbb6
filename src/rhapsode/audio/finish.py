"""Post-processing of speech between the model and the listener: channels, speed, loudness, volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.chain import Chain, Transform
from rhapsode.audio.channels import Remix
from rhapsode.audio.leveler import Leveler
from rhapsode.audio.limiter import Limiter
from rhapsode.audio.pacer import Pacer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rhapsode.alignment.words import BookmarkTime, WordTime
    from rhapsode.types import AudioChunk, Samples, SpeechRequest


DIALOGUE_LUFS = -20.0
"""The loudness of every voice of a dialogue, unless another is asked for."""


class Finish:
    """Gives speech the channels, speed, loudness and volume that a request asks for, then other transforms."""

    def __init__(
        self,
        request: SpeechRequest,
        sample_rate: int,
        from_channels: int,
        channels: int,
        then: Sequence[Transform] = (),
    ) -> None:
        self._remix = Remix(from_channels, channels)
        self._pacer = Pacer(request.speed, sample_rate, channels)
        self._loudness = DIALOGUE_LUFS if request.loudness is None and request.segments else request.loudness
        self._format = (sample_rate, channels)
        self._levelers: dict[int, Leveler] = {}
        self._speaker = 0
        self._volume = request.volume
        self._limiter = Limiter(sample_rate) if self._volume > 1 else None
        self._after = Chain(*then)

    def write(self, chunks: Sequence[AudioChunk]) -> Samples:
        paced = [self._paced(chunk) for chunk in chunks]
        return self._after.write(self._scaled(paced[0] if len(paced) == 1 else np.concatenate(paced, axis=1)))

    def close(self) -> Samples:
        return self._after.close(self._scaled(self._leveled(self._pacer.close())))

    def words(self, chunks: Sequence[AudioChunk]) -> tuple[WordTime, ...]:
        """Returns the words that come with chunks already written, at the times they are heard."""
        return tuple(word.timed(self._pacer.heard_s) for chunk in chunks for word in chunk.words)

    def bookmarks(self, chunks: Sequence[AudioChunk]) -> tuple[BookmarkTime, ...]:
        """Returns the bookmarks that come with chunks already written, at the times they are heard."""
        return tuple(mark.timed(self._pacer.heard_s) for chunk in chunks for mark in chunk.bookmarks)

    def _paced(self, chunk: AudioChunk) -> Samples:
        rest = None
        if chunk.speaker != self._speaker:
            rest, self._speaker = self._leveled(self._pacer.flush()), chunk.speaker
        paced = self._pacer.write(self._remix.write(chunk.samples), chunk.pace, chunk.is_pause)
        leveled = self._leveled(paced)
        return leveled if rest is None else np.concatenate((rest, leveled), axis=1)

    def _scaled(self, samples: Samples) -> Samples:
        """Brings samples to the requested volume."""
        if self._volume == 1:
            return samples
        scaled = samples * np.float32(self._volume)
        return scaled if self._limiter is None else self._limiter.write(scaled)

    def _leveled(self, samples: Samples) -> Samples:
        """Brings samples of the current voice to the requested loudness."""
        if self._loudness is None:
            return samples
        if self._speaker not in self._levelers:
            self._levelers[self._speaker] = Leveler(self._loudness, *self._format)
        return self._levelers[self._speaker].write(samples)
