"""Both passes over a batch, waited for, with what the host reads of them."""

from collections.abc import Sequence

import torch

from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer, TimedPhonemes
from rhapsode.types import Samples


def timed(renderer: Renderer, sentences: Sequence[PhonemeSentence]) -> list[TimedPhonemes]:
    made = renderer.measure(sentences)
    sizes = [len(one.ids) for one in sentences]
    return [
        TimedPhonemes(one, made.durations[i, :size].numpy(), made.prosodic[i, :size], made.text[i, :size])
        for i, (one, size) in enumerate(zip(sentences, sizes, strict=True))
    ]


def rendered(renderer: Renderer, found: Sequence[TimedPhonemes], seeds: Sequence[int] = (0,)) -> list[Samples]:
    """The samples `[1, n]` of each sentence."""
    samples = renderer.samples(found, torch.tensor(seeds)).float().numpy()
    return [row[None, : one.frames * renderer.samples_per_frame] for row, one in zip(samples, found, strict=True)]
