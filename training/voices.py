"""The speakers: presets, mixtures for cloning, and voices that nothing is trained on.

Every speaker is a style vector of Kokoro-82M (Apache-2.0). A preset is one of its voices; a mixture of three is a new
speaker, so there are as many as one likes to learn cloning from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Style = NDArray[np.float32]

PRESETS = {
    "heart": "af_heart",
    "michael": "am_michael",
    "emma": "bf_emma",
    "kore": "af_kore",
    "fenrir": "am_fenrir",
    "george": "bm_george",
}
"""Names, and the voices they are learned from: three women, three men, in an order that suits OpenAI's names, which are
mapped to presets in turn."""
UNSEEN = ("af_nova", "am_liam", "bf_lily", "bm_daniel")
"""Speakers for judging clones."""
PACES = {"emma": 0.86}
"""Presets that the teacher speaks at another pace. `bf_emma` says 19 letters in a second, the others 16 to 17: in codes
of 80 ms her short words are lost."""
TURNS = (0, 1, 2, 3, 0, 4, 5)
"""The order in which presets speak: the first is the default, so it gets two turns."""
FIRST_ID = 1325
"""Of the first preset in the talker's vocabulary."""
LONGEST_STYLE = 200
"""Kokoro has one style per number of phonemes; long texts hurry with theirs, so they get this one's."""
MIXED = 3


class Voices:
    """Style vectors by voice number: presets count from 0, mixtures are negative."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds `NAME.bin` of each voice, as published: float32, `[510, 256]`."""
        self._folder = folder
        english = [path.stem for path in sorted(folder.glob("[ab][fm]_*.bin"))]
        self._others = [name for name in english if name not in UNSEEN]

    def style(self, voice: int, phonemes: int) -> Style:
        """Returns the style `[256]` of a voice for a text of so many phonemes."""
        at = min(phonemes, LONGEST_STYLE) - 1
        if voice >= 0:
            return self._read(list(PRESETS.values())[voice])[at]
        rng = np.random.default_rng(-voice)
        names = rng.choice(self._others, MIXED, replace=False)
        shares = rng.dirichlet([0.6] * MIXED)
        return np.sum([share * self._read(name)[at] for share, name in zip(shares, names, strict=True)], 0, np.float32)

    def pace(self, voice: int) -> float:
        """Returns the pace of a voice."""
        return PACES.get(list(PRESETS)[voice], 1.0) if voice >= 0 else 1.0

    def of(self, name: str, phonemes: int) -> Style:
        """Returns the style of one of Kokoro's own voices."""
        return self._read(name)[min(phonemes, LONGEST_STYLE) - 1]

    @lru_cache(maxsize=64)  # noqa: B019 - one reader lives as long as its process
    def _read(self, name: str) -> Style:
        return np.fromfile(self._folder / f"{name}.bin", np.float32).reshape(-1, 256)


def chosen(passage: int, clones: float, turns: Sequence[int] = TURNS) -> int:
    """Returns the voice of a passage: presets in turn, and a new mixture for a share of `clones` of all passages."""
    if np.random.default_rng(passage).random() < clones:
        return -1 - passage
    return turns[passage % len(turns)]


def with_presets(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy of a checkpoint's config with our presets."""
    config = json.loads(json.dumps(config))
    talker = config["talker_config"]
    talker["spk_id"] = {name: FIRST_ID + i for i, name in enumerate(PRESETS)}
    talker["spk_is_dialect"] = dict.fromkeys(PRESETS, False)
    return config
