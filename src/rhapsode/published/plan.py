"""The settings of `rhapsode bench published`, and its prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rhapsode.bench.quality.prompts import OURS, SpokenPrompt, read_prompts
from rhapsode.errors import InvalidRequest
from rhapsode.published.beside import Beside
from rhapsode.published.sample import SpeechJudges
from rhapsode.types import Reference

SPLITS = {"en": ("en", "en/meta.lst"), "zh": ("zh", "zh/meta.lst"), "hard": ("zh", "zh/hardcase.lst")}
"""The lists of Seed-TTS-eval: the language and the file of each."""
MOST_DIALOGUES = 20
_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True)
class PublishedPlan:
    """What is measured of every checkpoint."""

    splits: Mapping[str, Sequence[SpokenPrompt]]
    languages: Mapping[str, str]
    """The language of each split."""
    prompts_from: str
    listeners: Sequence[int] = (1, 8, 32)
    precision: str = "auto"
    mode: str = "auto"
    device: str = "auto"
    seed: int = 1
    budget_s: float | None = None
    reference: Reference | None = None
    heard_by: SpeechJudges = field(default_factory=lambda: SpeechJudges(None))
    beside: Beside | None = None
    """Another implementation, or another copy of the checkpoint, to compare with."""
    anyway: bool = False
    """Measure a checkpoint although it fails `verify`."""
    output: Path = Path("published")


def read_splits(
    seed_tts: Path | None, wanted: str, prompts: Path | None, language: str, most: int | None
) -> tuple[dict[str, Sequence[SpokenPrompt]], dict[str, str], str]:
    """Returns the prompts and the language of each split, and where they come from."""
    if seed_tts is None:
        found = read_prompts(prompts or OURS)
        return {language: _first(found, most)}, {language: language}, (prompts or OURS).name
    if prompts is not None:
        raise InvalidRequest("give --seed-tts or --prompts, not both.")
    splits: dict[str, Sequence[SpokenPrompt]] = {}
    for name in dict.fromkeys(part.strip() for part in wanted.split(",")):
        if name not in SPLITS:
            raise InvalidRequest(f"--split takes some of {', '.join(SPLITS)}, not '{name}'.")
        path = seed_tts / SPLITS[name][1]
        if not path.is_file():
            raise InvalidRequest(
                f"there is no {path}: --seed-tts is the folder of Seed-TTS-eval with en/meta.lst, zh/meta.lst and "
                "zh/hardcase.lst."
            )
        splits[name] = _first(read_prompts(path), most)
    return splits, {name: SPLITS[name][0] for name in splits}, "Seed-TTS-eval"


def _first(prompts: Sequence[SpokenPrompt], most: int | None) -> Sequence[SpokenPrompt]:
    """Returns so many prompts from all parts of the list."""
    if most is None or most >= len(prompts):
        return prompts
    return [prompts[i * len(prompts) // most] for i in range(most)]


def seconds(text: str) -> float:
    """Parses a length of time such as `30m`, `1h30m` or `90s`."""
    found = _BUDGET.fullmatch(text.strip())
    hours, minutes, rest = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + rest
    if not total:
        raise InvalidRequest(f"--budget takes a length of time such as 30m, 1h30m or 90s, not '{text}'.")
    return float(total)
