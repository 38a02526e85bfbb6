"""Runs the network over lists of sentences: durations first, as they decide how many frames there are, then samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rhapsode.models.kokoro.net.net import Encoded, KokoroNet
from rhapsode.nn.ragged import Ragged
from rhapsode.types import Samples


@dataclass(frozen=True)
class PhonemeSentence:
    """A sentence as the network takes it."""

    ids: tuple[int, ...]
    """Of phonemes, with a 0 at either end."""
    style: Tensor  # [2 * style]
    rate: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class TimedPhonemes:
    """A sentence after the first pass. Those of several first passes may share a second one."""

    sentence: PhonemeSentence
    durations: tuple[int, ...]
    """Frames of each id."""
    prosodic: Tensor  # [P, hidden + style], on the device
    text: Tensor  # [P, hidden], on the device

    @property
    def frames(self) -> int:
        return sum(self.durations)


class Renderer:
    """Both passes over a batch of sentences of any lengths. An item is what it would be alone, but for rounding."""

    def __init__(self, net: KokoroNet, samples_per_frame: int) -> None:
        self._net, self.samples_per_frame = net, samples_per_frame
        self._device = net.text.bert_encoder.weight.device

    @torch.inference_mode()
    def durations(self, sentences: Sequence[PhonemeSentence]) -> list[TimedPhonemes]:
        """Runs the first pass; copies the durations to the host."""
        made = self.measure(sentences)
        durations = made.durations.tolist()
        sizes = [len(one.ids) for one in sentences]
        return [
            TimedPhonemes(one, tuple(durations[i][:size]), made.prosodic[i, :size], made.text[i, :size])
            for i, (one, size) in enumerate(zip(sentences, sizes, strict=True))
        ]

    @torch.inference_mode()
    def render(self, timed: Sequence[TimedPhonemes]) -> list[Samples]:
        """Runs the second pass; returns the samples `[1, n]` of each sentence."""
        samples = self.samples(timed).float().cpu().numpy()
        return [row[None, : one.frames * self.samples_per_frame] for row, one in zip(samples, timed, strict=True)]

    def measure(self, sentences: Sequence[PhonemeSentence], length: int = 0) -> Encoded:
        """Runs the first pass without waiting for it; ids are padded to `length`, or to the longest."""
        size = max(length, *(len(one.ids) for one in sentences))
        ids = torch.tensor([[*one.ids, *[0] * (size - len(one.ids))] for one in sentences], device=self._device)
        rates = torch.tensor([one.rate for one in sentences], device=self._device)
        ragged = self._ragged([len(one.ids) for one in sentences], size)
        return self._net.durations(ids, self._styles(sentences), rates, ragged)

    def samples(self, timed: Sequence[TimedPhonemes], length: int = 0) -> Tensor:
        """Runs the second pass without waiting for it: `[B, n]`, zeros beyond the end of each sentence.

        Frames are padded to `length`, or to the longest.
        """
        sentences = [one.sentence for one in timed]
        encoded = Encoded(
            pad_sequence([torch.tensor(one.durations) for one in timed], batch_first=True).to(self._device),
            pad_sequence([one.prosodic for one in timed], batch_first=True),
            pad_sequence([one.text for one in timed], batch_first=True),
        )
        seeds = torch.tensor([one.seed for one in sentences], device=self._device)
        frames = [one.frames for one in timed]
        return self._net.render(encoded, self._styles(sentences), seeds, self._ragged(frames, max(length, *frames)))

    def _styles(self, sentences: Sequence[PhonemeSentence]) -> Tensor:
        return torch.stack([one.style for one in sentences]).to(self._device)

    def _ragged(self, lengths: Sequence[int], size: int) -> Ragged:
        return Ragged.of(torch.tensor(lengths, device=self._device), size, is_full=min(lengths) == size)
