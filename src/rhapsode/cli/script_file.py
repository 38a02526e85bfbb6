"""Dialogues as text files: `[anna]: Hello.` begins a line of Anna, `[pause 1.5]` is a pause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rhapsode.errors import InvalidRequest

_LINE = re.compile(r"\[(?P<name>[^\]]{1,64})\]\s*:\s*(?P<text>.*)")
_PAUSE = re.compile(r"\[pause\s+(?P<seconds>\d{1,2}(?:\.\d{1,3})?)\s*s?\]", re.IGNORECASE)


@dataclass(frozen=True)
class ScriptLine:
    """One line of a dialogue: what one voice says, after a pause."""

    text: str
    voice: str | None
    pause_s: float | None = None

    def body(self) -> dict[str, Any]:
        """Returns the line as a segment of the HTTP API."""
        fields = {"input": self.text, "voice": self.voice, "pause_s": self.pause_s}
        return {name: value for name, value in fields.items() if value is not None}


def read_script(file: Path, voices: Sequence[str], text: str | None, text_file: Path | None) -> list[ScriptLine]:
    """Returns the lines of a file, with the voices that `name=voice` maps names to. A name may be a voice itself."""
    if text is not None or text_file is not None:
        raise InvalidRequest("give a text, a file or a script, not several of them.")
    try:
        content = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(f"cannot read {file}: {reason}.") from None
    mapped = dict(pair.split("=", 1) for pair in voices if "=" in pair)
    lines = parse_script(content)
    names = {line.voice for line in lines}
    if unused := [name for name in mapped if name not in names]:
        known = ", ".join(sorted(map(str, names)))
        raise InvalidRequest(f"nobody in {file} is called '{unused[0]}'; there are: {known}.")
    has_default = any("=" not in voice for voice in voices)
    return [replace(line, voice=mapped.get(line.voice or "", None if has_default else line.voice)) for line in lines]


@contextmanager
def naming_voices(lines: Sequence[ScriptLine], voices: Sequence[str]) -> Iterator[None]:
    """Adds to an error about a name of the script which option says whose voice it is."""
    try:
        yield
    except InvalidRequest as error:
        named = {pair.partition("=")[0] for pair in voices}
        unknown = [line.voice for line in lines if line.voice and line.voice not in named]
        name = next((voice for voice in unknown if f"'{voice}'" in error.message), None)
        if name is None:
            raise
        raise type(error)(f"{error.message} Say whose voice it is: --voice {name}=VOICE.", param=error.param) from None


def parse_script(content: str) -> list[ScriptLine]:
    """Returns the lines of a script; text without a name continues the line before."""
    lines: list[ScriptLine] = []
    pause_s: float | None = None
    for number, raw in enumerate(content.splitlines(), 1):
        written = raw.strip()
        if not written:
            continue
        if found := _PAUSE.fullmatch(written):
            pause_s = (pause_s or 0.0) + float(found["seconds"])
        elif found := _LINE.fullmatch(written):
            lines.append(ScriptLine(found["text"].strip(), found["name"].strip(), pause_s))
            pause_s = None
        elif lines and pause_s is None:
            lines[-1] = replace(lines[-1], text=f"{lines[-1].text} {written}".strip())
        else:
            raise InvalidRequest(f"line {number} of the script has no speaker: begin it like '[anna]: Hello.'")
    if not lines:
        raise InvalidRequest("the script is empty: begin its lines like '[anna]: Hello.'")
    return lines
