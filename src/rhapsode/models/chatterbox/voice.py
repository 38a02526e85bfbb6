"""A voice as the networks take it, and the preset voice of a checkpoint. Imports no torch before it reads one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.spec import PRESET
from rhapsode.models.chatterbox.t3.sizes import CODES, T3Sizes

FILE = "conds.pt"
RATE, BANDS, SPEAKER = 2, 80, 192
"""Mel frames of a token, bands of a mel frame, and numbers of the flow's speaker vector."""
TOKEN_HZ = 25

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class VoiceConditioning:
    """A voice, as a recording or a file of conditions gives it."""

    speaker_emb: Floats  # [E], for T3
    cond_tokens: Ids  # [n], for T3
    prompt_token: Ids  # [P], for the flow
    prompt_feat: Floats  # [P * RATE, BANDS], for the flow
    embedding: Floats  # [SPEAKER], for the flow

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in vars(self).values())

    def shortened(self, seconds: float | None) -> VoiceConditioning:
        """Returns the voice with only the first seconds of the speech that the flow hears; `None` keeps all."""
        most = len(self.prompt_token) if seconds is None else int(seconds * TOKEN_HZ)
        return replace(self, prompt_token=self.prompt_token[:most], prompt_feat=self.prompt_feat[: RATE * most])


def read_presets(folder: Path, sizes: T3Sizes, is_shape: bool = False) -> dict[str, VoiceConditioning]:
    """Returns the preset of a checkpoint, if it has one. A shape without weights has a random one, to be measured."""
    file = folder / FILE
    if not file.is_file():
        return {PRESET: random_voice(sizes)} if is_shape else {}
    from rhapsode.checkpoints.files import unpickle  # which needs torch

    content = unpickle(file)
    talker, flow = (content.get(name) if isinstance(content, Mapping) else None for name in ("t3", "gen"))
    if not isinstance(talker, Mapping) or not isinstance(flow, Mapping):
        raise CheckpointError(f"{file} must hold a voice in two parts, 't3' and 'gen'.")
    tokens = _ids(file, flow, "prompt_token")
    mel = _floats(file, flow, "prompt_feat", (None, BANDS))
    count = min(len(tokens), len(mel) // RATE)
    voice = VoiceConditioning(
        speaker_emb=_floats(file, talker, "speaker_emb", (sizes.speaker,)),
        cond_tokens=_ids(file, talker, "cond_prompt_speech_tokens"),
        prompt_token=tokens[:count],
        prompt_feat=mel[: RATE * count],
        embedding=_floats(file, flow, "embedding", (SPEAKER,)),
    )
    return {PRESET: voice}


def random_voice(sizes: T3Sizes, seconds: float = 5.0) -> VoiceConditioning:
    """Returns the voice of a reference of so many seconds."""
    draws, count = np.random.default_rng(0), int(seconds * TOKEN_HZ)
    tokens = draws.integers(0, CODES, count)
    mel = draws.normal(-5.0, 2.0, (RATE * count, BANDS)).astype(np.float32)
    speaker, embedding = (draws.normal(size=size).astype(np.float32) for size in (sizes.speaker, SPEAKER))
    return VoiceConditioning(speaker, tokens, tokens, mel, embedding)


def _ids(file: Path, entry: Mapping[str, Any], key: str) -> Ids:
    found = _numbers(file, entry, key).reshape(-1).astype(np.int64)
    if not len(found) or found.min() < 0 or found.max() >= CODES:
        raise CheckpointError(f"'{key}' of {file} must be speech tokens from 0 to {CODES - 1}.")
    return found


def _floats(file: Path, entry: Mapping[str, Any], key: str, shape: tuple[int | None, ...]) -> Floats:
    found = _numbers(file, entry, key).astype(np.float32)[0]
    fits = found.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, found.shape, strict=True))
    if not fits or not np.isfinite(found).all():
        wanted = " by ".join("any number" if size is None else str(size) for size in shape)
        raise CheckpointError(f"'{key}' of {file} must be {wanted} finite numbers, not {list(found.shape)}.")
    return found


def _numbers(file: Path, entry: Mapping[str, Any], key: str) -> NDArray[Any]:
    import torch

    if not isinstance(entry.get(key), torch.Tensor) or not entry[key].ndim or len(entry[key]) != 1:
        raise CheckpointError(f"'{key}' of {file} must be a tensor with a batch of one.")
    found: NDArray[Any] = entry[key].detach().cpu().numpy()
    return found
