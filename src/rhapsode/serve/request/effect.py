"""The fields of a body that have an effect on the served checkpoint: only these are documented and accepted."""

from __future__ import annotations

from collections.abc import Iterable

from rhapsode.errors import InvalidRequest
from rhapsode.types import ModelInfo, Sampling

NEEDS = {
    "instructions": "instructions",
    "ref_audio": "clone",
    "ref_text": "clone",
    "references": "clone",
    "prompt_audio": "continuation",
    "prompt_text": "continuation",
    "speaker_embedding": "embedding",
}
"""The ability that a checkpoint must have for a field to have an effect."""
FRAMES = ("max_new_tokens", "initial_codec_chunk_frames")


def without_effect(info: ModelInfo, options: Iterable[str]) -> set[str]:
    """Returns the fields that have no effect on a checkpoint. `options` are the names of all options of its family."""
    able = {*info.can.names(), *(["clone"] if info.takes_references else [])}
    unused = {name for name, ability in NEEDS.items() if ability not in able}
    unused |= {name for name in Sampling.__dataclass_fields__ if name not in info.sampling}
    unused |= set(FRAMES) if info.frame_hz is None else set()
    return unused | (set(options) - set(info.options))


def check_frames(given: Iterable[str], info: ModelInfo) -> None:
    """Raises if a field counts frames and the model makes none. The engine checks all other fields."""
    if info.frame_hz is None and (named := [name for name in FRAMES if name in given]):
        raise InvalidRequest(f"'{named[0]}' has no effect on {info.title}, which makes no frames.", param=named[0])
