"""Changes the speed of speech at the same pitch, as a stream."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph

from rhapsode.audio.samples import layout_of, shaped, silence
from rhapsode.errors import InvalidRequest

if TYPE_CHECKING:
    from rhapsode.types import Samples

MIN_SPEED, MAX_SPEED = 0.25, 4.0

_BLOCK_S = 0.02
_MAX_LAG_S = 2.0  # much more than the longest chain of filters holds back


class Tempo:
    """Makes speech `speed` times as fast. The length is exact, and does not depend on how the samples are cut."""

    def __init__(self, speed: float, sample_rate: int, channels: int = 1) -> None:
        if not MIN_SPEED <= speed <= MAX_SPEED:
            raise InvalidRequest(
                f"Speed must be between {MIN_SPEED:g} and {MAX_SPEED:g}, not {speed:g}.", param="speed"
            )
        self._speed = speed
        self._channels = channels
        self._stretch = None if speed == 1.0 else _Stretch(_factors(speed), sample_rate, channels)
        self._block = max(1, round(sample_rate * _BLOCK_S))
        self._max_lag_blocks = round(_MAX_LAG_S / _BLOCK_S)
        self._unpushed = self._unsent = silence(channels)
        self._received = self._sent = 0
        self._closed = False

    def write(self, samples: Samples) -> Samples:
        if self._closed:
            raise ValueError("the tempo is closed")
        samples = shaped(samples, self._channels)
        if self._stretch is None:
            return samples
        self._received += samples.shape[1]
        self._push(samples)
        return self._send()

    def close(self) -> Samples:
        """Returns the rest, so that the total length is exact. A second call returns nothing."""
        if self._closed or self._stretch is None:
            self._closed = True
            return silence(self._channels)
        self._closed = True
        # Flushing atempo would drop up to one window of speech, so silence is pushed through instead.
        for _ in range(self._max_lag_blocks):
            if self._unsent.shape[1] >= self._due_samples() - self._sent:
                break
            self._push(silence(self._channels, self._block))
        return self._send()

    def _due_samples(self) -> int:
        return round(self._received / self._speed)

    def _push(self, samples: Samples) -> None:
        """Filters whole blocks only, because atempo's output depends on the size of its input frames."""
        assert self._stretch is not None
        ready = np.concatenate((self._unpushed, samples), axis=1)
        whole = ready.shape[1] - ready.shape[1] % self._block
        blocks = [self._stretch(ready[:, i : i + self._block]) for i in range(0, whole, self._block)]
        self._unpushed = ready[:, whole:]
        self._unsent = np.concatenate((self._unsent, *blocks), axis=1)

    def _send(self) -> Samples:
        ready = self._unsent[:, : max(0, self._due_samples() - self._sent)]
        self._unsent = self._unsent[:, ready.shape[1] :]
        self._sent += ready.shape[1]
        return ready


class _Stretch:
    """A chain of FFmpeg atempo filters: takes a block, returns the samples that are ready."""

    def __init__(self, factors: list[float], sample_rate: int, channels: int) -> None:
        self._rate, self._channels, self._layout = sample_rate, channels, layout_of(channels)
        self._time_base = Fraction(1, sample_rate)
        self._pts = 0
        self._graph = Graph()
        self._graph.threads = 1
        source = self._graph.add_abuffer(
            sample_rate=sample_rate, format="flt", layout=self._layout, time_base=self._time_base
        )
        filters = [self._graph.add("atempo", f"{factor:.9f}") for factor in factors]
        self._graph.link_nodes(source, *filters, self._graph.add("abuffersink")).configure()

    def __call__(self, block: Samples) -> Samples:
        interleaved = np.ascontiguousarray(block.T).reshape(1, -1)
        frame = AudioFrame.from_ndarray(interleaved, format="flt", layout=self._layout)
        frame.sample_rate, frame.time_base, frame.pts = self._rate, self._time_base, self._pts
        self._pts += block.shape[1]
        self._graph.push(frame)
        out = [silence(self._channels)]
        while True:
            try:
                pulled = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return np.concatenate(out, axis=1)
            assert isinstance(pulled, AudioFrame)
            out.append(pulled.to_ndarray().reshape(-1, self._channels).T.astype(np.float32))


def _factors(speed: float) -> list[float]:
    """Splits the speed into factors from 0.5 to 2: beyond these, atempo skips samples instead of blending them."""
    factors = []
    while not 0.5 <= speed <= 2.0:
        step = 2.0 if speed > 2.0 else 0.5
        factors.append(step)
        speed /= step
    return [*factors, speed]
