"""Reference audio to codes, several recordings at once, each as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import InvalidRequest
from rhapsode.models.higgs.codec.encoder import HiggsEncoder
from rhapsode.models.higgs.codec.ragged import Lengths
from rhapsode.types import Clip, Samples

SEMANTIC_PADDING = 160
"""Zeros on each side of the semantic model's input."""
MOST_SAMPLES = 24_000 * 120
"""The most samples of one pass, padding included: the first features of the semantic model take 2 GB for them."""

HiggsCodes = NDArray[np.int64]


class ReferenceEncoder:
    """Encodes recordings as codes `[T, books]`. Products are float32 (or float64): lower precision changes codes.

    A recording shorter than `shortest_s` seconds is followed by silence.
    """

    def __init__(self, net: HiggsEncoder, shortest_s: float = 0.0) -> None:
        self._net = net
        self._settings = net.settings
        self._shortest = round(shortest_s * net.settings.sample_rate)

    def __call__(self, clips: Sequence[Clip]) -> list[HiggsCodes]:
        """Encodes recordings at any rate and with any number of channels, which are mixed."""
        return self.encode([self._mono(clip) for clip in clips])

    @torch.inference_mode()
    def encode(self, recordings: Sequence[Samples]) -> list[HiggsCodes]:
        """Encodes mono recordings `[n]` at the codec's rate."""
        padded = [np.pad(one, (0, max(0, self._shortest - len(one)))) for one in recordings]
        found: list[HiggsCodes | None] = [None] * len(padded)
        paddings = [self.padding(len(one)) for one in padded]  # a recording that is too short is found before any work
        for some in _passes([len(one) for one in padded]):
            codes = self._encode([padded[i] for i in some], [paddings[i] for i in some])
            for i, one in zip(some, codes, strict=True):
                found[i] = one
        return [codes for codes in found if codes is not None]

    def latents(self, recordings: Sequence[Samples], paddings: Sequence[int]) -> tuple[Tensor, Tensor, Lengths]:
        """Returns the vectors to quantize, the semantic features before refinement, and the frames of each row."""
        settings, net = self._settings, self._net
        coarse = [
            resample_sinc(one[None], settings.sample_rate, settings.semantic_sample_rate)[0] for one in recordings
        ]
        semantic, lengths = net.semantic(*self._batch(coarse, [SEMANTIC_PADDING] * len(coarse)))
        acoustic, frames = net.acoustic_encoder(*self._batch(recordings, paddings))
        assert list(frames) == list(lengths)  # `padding` ensures it
        return net.latents(acoustic, semantic, frames), semantic, frames

    def _encode(self, recordings: Sequence[Samples], paddings: Sequence[int]) -> list[HiggsCodes]:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            latents, _, frames = self.latents(recordings, paddings)
            codes = self._net.quantizer(torch.cat([row[:n] for row, n in zip(latents, frames, strict=True)]))
        return [one.cpu().numpy() for one in codes.split(list(frames))]

    def padding(self, samples: int) -> int:
        """Returns how many zeros the acoustic encoder needs on each side of its input to make as many frames as the
        semantic model."""
        settings = self._settings
        wanted = settings.semantic_frames(samples, SEMANTIC_PADDING)
        for padding in (0, settings.hop // 2):
            if wanted > 0 and settings.acoustic_frames(samples + 2 * padding) == wanted:
                return padding
        raise InvalidRequest(
            f"A reference of {samples / settings.sample_rate:.3f} s is too short: it must have at least one frame of"
            f" {settings.hop / settings.sample_rate:.3f} s.",
            param="references",
        )

    def _batch(self, recordings: Sequence[Samples], paddings: Sequence[int]) -> tuple[Tensor, list[int]]:
        weight = self._net.fc.weight
        lengths = [len(one) + 2 * padding for one, padding in zip(recordings, paddings, strict=True)]
        rows = np.zeros((len(recordings), max(lengths)), np.float32)
        for row, one, padding in zip(rows, recordings, paddings, strict=True):
            row[padding : padding + len(one)] = one
        return torch.from_numpy(rows).to(weight.device, weight.dtype), lengths

    def _mono(self, clip: Clip) -> Samples:
        mixed = clip.samples.mean(axis=0, dtype=np.float32, keepdims=True)
        return resample_sinc(mixed, clip.sample_rate, self._settings.sample_rate)[0]


def _passes(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields the indices of recordings that are encoded together: similar lengths, and not too many samples."""
    some: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if some and (len(some) + 1) * lengths[i] > MOST_SAMPLES:
            yield some
            some = []
        some.append(i)
    if some:
        yield some
