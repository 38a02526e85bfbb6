"""Prompts as data: the token or the patch of each position. The talker embeds them.

The talker prefills all positions but the last, which is the input of the first step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START

Patches = NDArray[np.float32]  # [F, patch, feat]

PATCH = -1
"""The id at the position of a patch."""
ID = 0
"""The column of the id in a prompt's content; the patch's values follow. All are float32, which holds ids exactly."""

REMEMBERED = 3
"""How many patches before the first one are decoded without output, as upstream does when it does not stream."""


@dataclass
class VoxPrompt(Prompt):
    """The talker's prompt, and the patches that the codec decodes before the first one."""

    last: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))  # [1 + patch * feat]
    heard: Patches | None = None  # [0..3, patch, feat], before the first patch
    cfg_value: float = 2.0
    timesteps: int = 10
    min_len: int = 2


@dataclass(frozen=True)
class VoxScript:
    """Everything a prompt is made from, once references are encoded."""

    text: list[int]
    """The transcript of a continued reference, and the text to speak."""
    reference: Patches | None = None
    """A recording of the voice to speak with, encoded."""
    continued: Patches | None = None
    """Speech to continue, encoded."""


def build(script: VoxScript, patch_shape: tuple[int, int]) -> tuple[NDArray[np.float32], Patches | None]:
    """Returns the content of all positions, [T, 1 + patch * feat], and the patches to decode before the first one."""
    width = patch_shape[0] * patch_shape[1]
    parts = [_tokens([*script.text, AUDIO_START], width)]
    if script.reference is not None:
        marks = _tokens([REFERENCE_START], width), _tokens([REFERENCE_END], width)
        parts = [marks[0], _patches(script.reference), marks[1], *parts]
    if script.continued is None:
        return np.concatenate(parts), None
    parts.append(_patches(script.continued))
    sounds = [x for x in (script.reference, script.continued) if x is not None]
    return np.concatenate(parts), np.concatenate(sounds)[-REMEMBERED:]


def _tokens(ids: list[int], width: int) -> NDArray[np.float32]:
    rows = np.zeros((len(ids), 1 + width), np.float32)
    rows[:, ID] = ids
    return rows


def _patches(patches: Patches) -> NDArray[np.float32]:
    rows = np.full((len(patches), 1 + patches[0].size), PATCH, np.float32)
    rows[:, 1:] = patches.reshape(len(patches), -1)
    return rows
