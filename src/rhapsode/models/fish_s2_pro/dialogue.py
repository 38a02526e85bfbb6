"""Brings dialogues into the form that the model expects: speaker tags, turns, and batches of turns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rhapsode.text.turns import SpeakerTag

MOST_TURNS = 5
"""The most turns that are generated together."""

_TAG = re.compile(r"<\|speaker:(\d+)\|>|<speaker:(\d+)>")
_TAG_BEGUN = re.compile(r"<(\|?(s(p(e(a(k(e(r(:\d*\|?)?)?)?)?)?)?)?)?)?$")


def tag(speaker: int | str) -> str:
    return f"<|speaker:{speaker}|>"


TAG = SpeakerTag(_TAG, _TAG_BEGUN, tag)


def canonical(text: str) -> str:
    """Returns the text with every speaker tag in the form that the model knows; `<speaker:0>` is accepted, too."""
    return _TAG.sub(TAG.of, text)


def untagged(text: str) -> str:
    """Returns the text without speakers' tags."""
    return _TAG.sub("", text)


def is_tagged(text: str) -> bool:
    return _TAG.search(text) is not None


def turns(text: str) -> list[str]:
    """Cuts a text before each speaker's tag. A text without tags is one turn. As upstream, text before the first tag
    is dropped."""
    text = canonical(text)
    if not is_tagged(text):
        return [text]
    starts = [found.start() for found in _TAG.finditer(text)]
    return [text[start:stop].strip() for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)]


def batches(turns: Iterable[str], most_bytes: int) -> list[str]:
    """Joins turns that are generated together: at most five, and no more than `most_bytes` of UTF-8."""
    found: list[list[str]] = []
    size = 0
    for turn in turns:
        length = len(turn.encode("utf-8", "replace"))
        if not found or len(found[-1]) == MOST_TURNS or size + length > most_bytes:
            found.append([])
            size = 0
        found[-1].append(turn)
        size += length
    return ["\n".join(batch) for batch in found]
