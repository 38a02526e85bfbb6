"""Preset speakers from `spk2info.pt`: per name a speaker vector, or a stored reference with its tokens and mel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import CheckpointError
from rhapsode.models.cosyvoice3.config import CosyConfig
from rhapsode.models.cosyvoice3.prompt import CosyVoice, Ids

FILE = "spk2info.pt"
_CLONE = ("prompt_text", "llm_prompt_speech_token", "flow_prompt_speech_token", "prompt_speech_feat", "flow_embedding")


@dataclass(frozen=True)
class CosyPreset:
    """A speaker of the checkpoint."""

    voice: CosyVoice
    prompt_text: Ids  # [T]: of a stored reference, the system line and the transcript
    speech: Ids  # [P]: its speech for the language model


def read_presets(folder: Path, config: CosyConfig, random_weights: bool = False) -> dict[str, CosyPreset]:
    """Returns a checkpoint's speakers by name. Most checkpoints have none; random weights get one, for measurements."""
    if not (folder / FILE).is_file():
        return {"random": _random(config)} if random_weights else {}
    from rhapsode.checkpoints.files import unpickle  # which needs torch

    content = unpickle(folder / FILE)
    if not isinstance(content, Mapping) or not all(isinstance(one, Mapping) for one in content.values()):
        raise CheckpointError(f"{folder / FILE} must hold speakers by name.")
    return {str(name): _preset(f"'{name}' in {folder / FILE}", entry, config) for name, entry in content.items()}


def _preset(where: str, entry: Mapping[str, Any], config: CosyConfig) -> CosyPreset:
    nothing = np.zeros(0, np.int64)
    if "embedding" in entry:
        none = np.zeros((0, config.mel.num_mels), np.float32)
        return CosyPreset(CosyVoice(nothing, none, _embedding(where, entry, "embedding", config)), nothing, nothing)
    lacking = [key for key in _CLONE if key not in entry]
    if lacking:
        raise CheckpointError(f"the speaker {where} lacks '{lacking[0]}'.")
    text, speech, tokens = (_numbers(where, entry, key)[0].astype(np.int64) for key in _CLONE[:3])
    mel = _numbers(where, entry, "prompt_speech_feat")[0].astype(np.float32)
    frames = len(tokens) * config.rates.token_mel_ratio
    if mel.shape != (frames, config.mel.num_mels):
        raise CheckpointError(f"the speaker {where} has {len(tokens)} tokens and a mel of {list(mel.shape)}.")
    for ids in (speech, tokens):
        check_tokens(ids, config.codes, CheckpointError(f"the speaker {where} has an id past {config.codes - 1}."))
    return CosyPreset(CosyVoice(tokens, mel, _embedding(where, entry, "flow_embedding", config)), text, speech)


def _random(config: CosyConfig) -> CosyPreset:
    """Returns a stored reference of three seconds and ten tokens of text."""
    draws, count = np.random.default_rng(0), config.tokens_of(3.0)
    tokens = draws.integers(0, config.codes, count)
    mel = draws.normal(-5.0, 2.0, (count * config.rates.token_mel_ratio, config.mel.num_mels)).astype(np.float32)
    embedding = draws.normal(size=config.rates.spk_embed_dim).astype(np.float32)
    return CosyPreset(CosyVoice(tokens, mel, embedding), np.arange(10), tokens)


def check_tokens(ids: Ids, codes: int, error: Exception) -> None:
    """Raises the error if an id is no speech token."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < codes):
        raise error


def _embedding(where: str, entry: Mapping[str, Any], key: str, config: CosyConfig) -> NDArray[np.float32]:
    found = _numbers(where, entry, key).reshape(-1).astype(np.float32)
    if len(found) != config.rates.spk_embed_dim or not np.isfinite(found).all():
        raise CheckpointError(f"'{key}' of the speaker {where} must be {config.rates.spk_embed_dim} finite numbers.")
    return found


def _numbers(where: str, entry: Mapping[str, Any], key: str) -> NDArray[Any]:
    import torch

    if not isinstance(entry[key], torch.Tensor) or not entry[key].ndim:
        raise CheckpointError(f"'{key}' of the speaker {where} must be a tensor with a batch of one.")
    found: NDArray[Any] = entry[key].detach().cpu().numpy()
    return found
