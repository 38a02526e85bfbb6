"""Runs the network over lists of sentences: durations first, as they decide how many frames there are, then samples.

Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rhapsode.device.upload import upload
from rhapsode.models.kokoro.net.net import Encoded, KokoroNet
from rhapsode.nn.ragged import Ragged


@dataclass(frozen=True)
class PhonemeSentence:
    """A sentence as the network takes it."""

    ids: tuple[int, ...]
    """Of phonemes, with a 0 at either end."""
    style: Tensor  # [2 * style], on the host
    rate: float = 1.0


@dataclass(frozen=True)
class TimedPhonemes:
    """A sentence after the first pass. Those of several first passes may share a second one."""

    sentence: PhonemeSentence
    durations: NDArray[np.int64]
    """Frames of each id."""
    prosodic: Tensor  # [P, hidden + style], on the device
    text: Tensor  # [P, hidden], on the device

    @property
    def frames(self) -> int:
        return int(self.durations.sum())


class Renderer:
    """Both passes over a batch of sentences of any lengths. An item is what it would be alone, but for rounding."""

    def __init__(self, net: KokoroNet, samples_per_frame: int) -> None:
        self._net, self.samples_per_frame = net, samples_per_frame
        self._device = net.text.bert_encoder.weight.device

    def measure(self, sentences: Sequence[PhonemeSentence], length: int = 0) -> Encoded:
        """Runs the first pass; ids are padded to `length`, or to the longest."""
        counts = [len(one.ids) for one in sentences]
        ids = np.zeros((len(sentences), max(length, *counts)), np.int64)
        for row, one in zip(ids, sentences, strict=True):
            row[: len(one.ids)] = one.ids
        rates = upload(np.array([one.rate for one in sentences], np.float32), self._device)
        ragged = self._ragged(counts, ids.shape[1])
        return self._net.durations(upload(ids, self._device), self._styles(sentences), rates, ragged)

    def samples(self, timed: Sequence[TimedPhonemes], seeds: Tensor, length: int = 0) -> Tensor:
        """Runs the second pass: `[B, n]`, zeros beyond the end of each sentence; frames are padded to `length`, or to
        the longest. `seeds [B]` are those of the noise."""
        positions = max(len(one.durations) for one in timed)
        durations = np.zeros((len(timed), positions), np.int64)
        for row, one in zip(durations, timed, strict=True):
            row[: len(one.durations)] = one.durations
        encoded = Encoded(
            upload(durations, self._device),
            pad_sequence([one.prosodic for one in timed], batch_first=True),
            pad_sequence([one.text for one in timed], batch_first=True),
        )
        frames = [one.frames for one in timed]
        styles = self._styles([one.sentence for one in timed])
        return self._net.render(encoded, styles, seeds, self._ragged(frames, max(length, *frames)))

    def _styles(self, sentences: Sequence[PhonemeSentence]) -> Tensor:
        return upload(torch.stack([one.style for one in sentences]).numpy(), self._device)

    def _ragged(self, counts: Sequence[int], size: int) -> Ragged:
        """Only a sentence alone goes without a mask: in a crowd, whether all have one length must not change rounding,
        since that is up to the others."""
        is_full = len(counts) == 1 and counts[0] == size
        return Ragged.of(upload(np.array(counts, np.int64), self._device), size, is_full=is_full)
