"""Cuts the silence that the model makes around a sentence, on the device: nothing waits for the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rhapsode.audio.join import FADE_S, HEAD_S, SILENCE_DBFS, TAIL_S, WINDOW_S
from rhapsode.device.upload import upload


@dataclass(frozen=True)
class Edges:
    """What is heard around the speech of a sentence, in samples."""

    head: int
    """Of the model's own silence, before the first sound and after the last."""
    tail: int
    pause: int = 0
    """Between the last sound of the sentence before, with the tail that it keeps, and the first sound of this one."""

    @classmethod
    def of(cls, pause_s: float, sample_rate: int, *, is_first: bool) -> Edges:
        """What is kept around two sentences is part of the pause between them, so it must fit into it."""
        pause = round(pause_s * sample_rate)
        head = min(round(HEAD_S * sample_rate), pause // 3)
        tail = min(round(TAIL_S * sample_rate), pause - head)
        return cls(head, tail, 0 if is_first else pause - tail)


def trimmed(samples: Tensor, counts: Sequence[int], edges: Sequence[Edges | None], sample_rate: int) -> Tensor:
    """Returns samples `[B, more]` of sentences `[B, n]`, each with a pause before it and no other silence.

    `counts`: the samples of each sentence. What follows its end is zeros; all of it is, if nothing of it is loud. Those
    without `edges` stay as they are. Windows of 10 ms below -50 dBFS are silence.
    """
    size, device = samples.shape[1], samples.device
    window, fade = round(WINDOW_S * sample_rate), round(FADE_S * sample_rate)
    given = [(one.head, one.tail, one.pause) if one else (0, 0, 0) for one in edges]
    numbers = np.array([(*one, count, bool(e)) for one, count, e in zip(given, counts, edges, strict=True)], np.int64)
    head, tail, pause, count, cuts = upload(numbers, device)[..., None].unbind(1)  # [B, 1] each
    first, last, is_heard = _loud(samples, count, window)
    last = torch.minimum(last, count)
    start = (first - head).clamp(min=0).where(cuts > 0, 0)
    stop = torch.minimum(last + tail, count).where(cuts > 0, count)
    lead = (pause - (first - start)).clamp(min=0).where(cuts > 0, 0)
    place = torch.arange(size + max(one[2] for one in given), device=device) - lead + start  # [B, more]
    there = (place >= start) & (place < stop) & (is_heard | (cuts == 0))
    made = samples.gather(1, place.clamp(0, size - 1))
    edge = (torch.minimum(place - start, stop - 1 - place).to(samples.dtype) + 0.5) / max(1, fade)
    gain = (0.5 - 0.5 * torch.cos(torch.pi * edge.clamp(0, 1))).where(cuts > 0, 1)
    return (made * gain).masked_fill(~there, 0)


def _loud(samples: Tensor, count: Tensor, window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns where the first loud window begins, where the last one ends, and whether there is one, `[B, 1]` each.

    What is not a number counts as loud, so that it is reported.
    """
    size = samples.shape[1]
    windows = -(-size // window)
    padded = torch.nn.functional.pad(samples, (0, windows * window - size)).unflatten(1, (windows, window))
    starts = torch.arange(windows, device=samples.device) * window
    held = (count - starts).clamp(1, window)  # the last window of a sentence may be shorter
    power = padded.double().square().sum(2) / held
    loud = ~(power < 10 ** (SILENCE_DBFS / 10)) & (starts < count)
    first = starts.where(loud, size).amin(1, keepdim=True)
    last = (starts + window).where(loud, 0).amax(1, keepdim=True)
    return first, last, loud.any(1, keepdim=True)
