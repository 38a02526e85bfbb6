"""The voice of a measurement where the checkpoint has none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rhapsode.types import ModelInfo, Voice


def voice_for(given: Voice, info: ModelInfo, random_weights: bool, seed: int) -> Voice:
    """Returns the voice to measure with. A checkpoint without a voice of its own gets a random speaker embedding.

    So does a reference beside random weights, which come without a speaker encoder.
    """
    can_add = info.can.reference_embedding if given.references else given == Voice()
    is_needed = random_weights if given.references else not info.default_voice
    if not (info.embedding_size and can_add and is_needed):
        return given
    numbers = np.random.default_rng(seed).standard_normal(info.embedding_size)
    return replace(given, embedding=tuple((numbers / np.linalg.norm(numbers)).tolist()))
