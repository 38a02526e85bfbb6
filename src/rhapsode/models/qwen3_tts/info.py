"""Describes what a Qwen3-TTS checkpoint can do: a Base model clones, a CustomVoice model has presets, a VoiceDesign
model takes descriptions. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.models.qwen3_tts import spec
from rhapsode.models.qwen3_tts.config import KINDS, QwenConfig, read
from rhapsode.models.summary import summarise
from rhapsode.text.language import code_of
from rhapsode.types import Capabilities, ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns the abilities, voices and languages of one checkpoint."""
    found = read(config, folder)
    voices = tuple(found.tokens.spk_id) if found.kind == "custom_voice" else ()
    described = replace(
        info,
        variant=KINDS[found.kind],
        can=abilities(found),
        voices=voices,
        voice_facts={name: facts for name in voices if (facts := facts_of(name, found))},
        languages=tuple(languages(found)),
        normalise=found.generation.normalise,
        phonemes=found.generation.phonemes,
        embedding_size=found.speaker_width if found.clones else None,
        default_voice=found.kind != "base",
    )
    return replace(described, summary=summarise(described))


def abilities(config: QwenConfig) -> Capabilities:
    """Returns what a checkpoint of this kind and size can do."""
    kind = KINDS[config.kind]
    if config.kind != "custom_voice":
        return spec.KINDS[kind]
    can = spec.KINDS[f"{kind} {'1.7B' if config.takes_instructions else '0.6B'}"]
    return replace(can, presets=bool(config.tokens.spk_id), clone=config.clones, embedding=config.clones)


def facts_of(voice: str, config: QwenConfig) -> dict[str, str]:
    """Returns what the checkpoint declares of a preset: in a key of its own, or that it speaks a dialect."""
    declared, dialect = config.generation.voice_facts.get(voice), config.tokens.spk_is_dialect.get(voice)
    known = {"accent": dialect.replace("_", " ")} if isinstance(dialect, str) else {}
    if isinstance(declared, Mapping):
        known |= {fact: text for fact in ("gender", "accent") if isinstance(text := declared.get(fact), str)}
    return known


def languages(config: QwenConfig) -> dict[str, int]:
    """Returns the id of each language by its code. Dialects are left out: presets choose them, not requests."""
    known = config.tokens.codec_language_id
    return {code_of(name): number for name, number in known.items() if "dialect" not in name}
