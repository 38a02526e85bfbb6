"""The vocoder stage: mel frames to samples, batched over slots. A segment begins with silence and fades in."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.nn.hift.sampled_source import CounterDraws, SourceDraws
from rhapsode.nn.hift.symmetric import SymmetricHift, SymmetricHiftState

FADE_HZ = 50
"""One over the seconds of silence at the beginning, and one over the seconds of the fade after it."""


def fade_in(sample_rate: int) -> Tensor:
    """Returns the gain of the first samples of a segment, and of all samples after them as its last number."""
    length = sample_rate // FADE_HZ
    rising = (torch.linspace(torch.pi, 0, length, dtype=torch.float64, device="cpu").cos() + 1) / 2
    return torch.cat((torch.zeros(length, dtype=torch.float64, device="cpu"), rising, rising.new_ones(1)))


class S3Vocoder:
    """Streams a `SymmetricHift`. Its state of earlier frames is in the slot, so no frame is read twice."""

    channels = 1

    def __init__(self, net: SymmetricHift, draws: SourceDraws | None = None, unheard: int = 0) -> None:
        """`unheard`: frames at the end of a segment that are not heard."""
        self._net, self._draws = net, draws or CounterDraws()
        self.hop = net.settings.hop
        self.reach = Reach(lookahead=net.lookahead, incremental=True, unheard=unheard)
        self._gains = fade_in(net.settings.sampling_rate).to(net.conv_post.weight)

    def state(self, slots: int) -> SymmetricHiftState:
        return self._net.state(slots)

    def decode(self, window: Window, rows: Rows, state: SymmetricHiftState) -> Tensor:
        """Returns the samples of the next frames, `[B, 1, due * hop]`."""
        frames, slots = window.frames, rows.slots
        present = frames.new_ones(frames.shape[:2], dtype=torch.bool) if window.present is None else window.present
        first = state.given[slots] + frames.shape[1] - window.due - self._net.lookahead  # of the frames that come out
        samples = self._net(frames, present, rows, state, self._draws)[:, -window.due * self.hop :]
        place = first[:, None] * self.hop + torch.arange(samples.shape[1], device=slots.device)
        return (samples * self._gains[place.clamp(0, len(self._gains) - 1)])[:, None]
