"""Reads lists of prompts: one per line, `[kind]` above those of one kind; or Seed-TTS-eval's `meta.lst`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rhapsode.errors import InvalidRequest

OURS = Path(__file__).with_name("prompts.txt")


@dataclass(frozen=True)
class SpokenPrompt:
    """One text to speak, with reference audio of the voice if the list has any."""

    id: str
    text: str
    reference: Path | None = None
    reference_text: str | None = None
    spoken: Path | None = None
    """The same text as a person says it."""
    kind: str = ""
    """Prompts of one kind are also reported as a group."""


def read_prompts(path: Path = OURS, most: int | None = None) -> tuple[SpokenPrompt, ...]:
    """Reads a list. A line with bars is one of `meta.lst`: id|reference text|reference audio|text, and
    in some lists the audio of a person who says it."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(f"cannot read the prompts in {path}: {reason}.") from None
    found: list[SpokenPrompt] = []
    kind = ""
    for number, line in enumerate((line.strip() for line in lines), start=1):
        if line.startswith("[") and line.endswith("]"):
            kind = line[1:-1].strip()
        elif line and not line.startswith("#"):
            found.append(_parse(line, number, path, kind))
    if not found:
        raise InvalidRequest(f"there are no prompts in {path}: it needs one per line.")
    return tuple(found[:most])


def _parse(line: str, number: int, path: Path, kind: str) -> SpokenPrompt:
    fields = [field.strip() for field in line.split("|")]
    if len(fields) == 1:
        return SpokenPrompt(f"{kind or path.stem}-{number}", line, kind=kind)
    if len(fields) == 2:  # id|text
        return SpokenPrompt(fields[0], fields[1], kind=kind)
    if len(fields) not in (4, 5):
        raise InvalidRequest(f"line {number} of {path} has {len(fields)} fields; meta.lst has four or five.")
    name, reference_text, reference, text = fields[:4]
    spoken = path.parent / fields[4] if len(fields) == 5 and fields[4] else None
    return SpokenPrompt(name, text, path.parent / reference, reference_text, spoken, kind)
