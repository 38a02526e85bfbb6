"""Tags in plain text, such as `[pause:1.5s]` and `[voice:one]`, as passages of one voice each, in SSML."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from rhapsode.errors import InvalidRequest
from rhapsode.text.clean import is_speakable, well_formed
from rhapsode.text.ssml import MAX_RATE, MIN_RATE, MOST_BREAK_S

TAG = re.compile(
    r"\[(?:pause:(?P<pause>\d{1,6}(?:\.\d{1,6})?)s|voice:(?P<voice>[^\[\]]{1,1024})"
    r"|rate:\s{0,8}(?P<rate>\d{1,4}(?:\.\d{1,4})?)\s{0,8})\]"
    r"|\[(?P<word>[^\[\]]{1,200})\]\(/(?P<sounds>[^/()]{0,200})/\)",
    re.IGNORECASE,
)
"""The last one is a word with its sounds."""
MOST_PASSAGES = 1000
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@dataclass
class Passage:
    """What one voice says."""

    voice: str | None
    """As its tag names it; `None` is the voice of the request."""
    pause_s: float = 0.0
    """The silence before it."""
    parts: list[str] = field(default_factory=list)
    has_words: bool = False

    def say(self, text: str, rate: float) -> None:
        said = escape(NOT_IN_XML.sub("", well_formed(text)))
        self.has_words = self.has_words or is_speakable(text)
        self.parts.append(said if rate == 1 or not said.strip() else f'<prosody rate="{rate:.4g}">{said}</prosody>')

    def pause(self, seconds: float) -> None:
        """Adds silence; before the first word it is silence before the passage."""
        if self.has_words:
            self.parts.append(silence(seconds))
        else:
            self.pause_s += seconds

    def document(self, *, with_pause: bool = False) -> str:
        """Returns the passage as SSML, with the silence before it or without."""
        before = silence(self.pause_s) if with_pause else ""
        return f"<speak>{before}{''.join(self.parts)}</speak>"


def silence(seconds: float) -> str:
    """Returns breaks that last so long together, up to a little more than any request may have."""
    whole, rest = divmod(min(seconds, 5 * MOST_BREAK_S), MOST_BREAK_S)
    breaks = [MOST_BREAK_S] * int(whole) + ([rest] if rest else [])
    return "".join(f'<break time="{round(1000 * one)}ms"/>' for one in breaks)


def passages(
    text: str, rate_of: Callable[[str | None], float], voice: str | None = None, *, has_voices: bool
) -> list[Passage]:
    """Returns what each voice says, the first one being `voice`. A voice has a pace of its own, which tags scale.
    Without `has_voices`, tags of voices and of paces are text."""
    found, rate, at = [Passage(voice)], 1.0, 0

    def say(said: str) -> None:
        found[-1].say(said, min(MAX_RATE, max(MIN_RATE, rate_of(found[-1].voice) * rate)))

    for tag in TAG.finditer(text):
        if not has_voices and (tag["voice"] or tag["rate"]):
            continue
        say(text[at : tag.start()])
        at = tag.end()
        if tag["pause"]:
            found[-1].pause(float(tag["pause"]))
        elif tag["word"]:
            say(tag["word"])
        elif tag["rate"]:
            rate = float(tag["rate"])
        else:
            rate = 1.0
            pause_s = 0.0 if found[-1].has_words else found.pop().pause_s
            found.append(Passage(tag["voice"].strip(), pause_s))
            if len(found) > MOST_PASSAGES:
                raise InvalidRequest(f"a text has at most {MOST_PASSAGES} changes of the voice.", param="input")
    say(text[at:])
    if len(found) > 1 and not found[-1].has_words:
        last = found.pop()
        found[-1].pause(last.pause_s)
    return found
