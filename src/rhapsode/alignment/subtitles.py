"""Subtitles from words with times: SubRip (.srt) and WebVTT (.vtt)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rhapsode.alignment.shown import ShownWord
from rhapsode.errors import OutputError

LINE_CHARS, LINES = 42, 2
SHORTEST_S, LONGEST_S = 1.0, 7.0
PAUSE_S = 1.0
"""A longer silence ends a cue."""
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_CLAUSE_END = re.compile(r"[,;:—–，；：、][\"'”’»)\]]*$")


@dataclass(frozen=True)
class Cue:
    """One subtitle: lines that are shown at the same time."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


def cues(words: Sequence[ShownWord]) -> list[Cue]:
    """Returns the words in cues of at most two lines, which end with a sentence where they can."""
    groups = list(_groups(words))
    found: list[Cue] = []
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        start_s, end_s = group[0].start_s, group[-1].end_s
        latest_s = following[0].start_s if following else end_s + SHORTEST_S
        end_s = max(end_s, min(start_s + SHORTEST_S, latest_s))
        found.append(Cue(start_s, end_s, _lines([word.text for word in group])))
    return found


def subtitles(shown: Sequence[Cue], kind: str) -> str:
    """Returns the content of a file of subtitles; `kind` is `srt` or `vtt`."""
    mark = "," if kind == "srt" else "."
    blocks = ["WEBVTT"] if kind == "vtt" else []
    for number, cue in enumerate(shown, 1):
        lines = [line.replace("&", "&amp;").replace("<", "&lt;") for line in cue.lines] if kind == "vtt" else cue.lines
        times = f"{_clock(cue.start_s, mark)} --> {_clock(cue.end_s, mark)}"
        blocks.append("\n".join([str(number), times, *lines]))
    return "\n\n".join(blocks) + "\n"


def subtitle_kind(file: str | Path) -> str:
    """Returns the kind of a file of subtitles, from its name."""
    kind = Path(file).suffix.lower().removeprefix(".")
    if kind not in ("srt", "vtt"):
        raise OutputError(f"subtitles are .srt or .vtt files, not '{file}'.")
    return kind


def _groups(words: Sequence[ShownWord]) -> Iterator[list[ShownWord]]:
    group: list[ShownWord] = []
    for word in words:
        if group and not _fits([*group, word]):
            cut = _clause_cut(group)
            yield group[:cut]
            group = group[cut:]
        if group and word.start_s - group[-1].end_s > PAUSE_S:
            yield group
            group = []
        group.append(word)
        if word.ends_block or _SENTENCE_END.search(word.text):
            yield group
            group = []
    if group:
        yield group


def _fits(group: list[ShownWord]) -> bool:
    lines = _lines([word.text for word in group])
    fits = len(lines) <= LINES and all(len(line) <= LINE_CHARS for line in lines)
    return fits and group[-1].end_s - group[0].start_s <= LONGEST_S


def _clause_cut(group: list[ShownWord]) -> int:
    """Returns how many words of a full cue to keep: up to the end of a clause in its second half, else all."""
    ends = [index + 1 for index, word in enumerate(group) if _CLAUSE_END.search(word.text)]
    return next((end for end in reversed(ends) if 2 * end >= len(group)), len(group))


def _lines(texts: list[str]) -> tuple[str, ...]:
    """Returns one line, or two of about the same length."""
    whole = " ".join(texts)
    if len(whole) <= LINE_CHARS or len(texts) == 1:
        return (whole,)
    halves = [(" ".join(texts[:cut]), " ".join(texts[cut:])) for cut in range(1, len(texts))]
    return min(halves, key=lambda lines: max(map(len, lines)))


def _clock(seconds: float, mark: str) -> str:
    ms = round(seconds * 1000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"
