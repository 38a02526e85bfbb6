"""SSML with elements that our own reader does not know, as plain text with tags."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from rhapsode.errors import InvalidRequest
from rhapsode.text.clean import well_formed
from rhapsode.text.ssml import MAX_RATE, MIN_RATE, SsmlReader
from rhapsode.text.xml_tree import parse_xml

START = "<speak"
BREAK_S = {"none": 0.0, "x-weak": 0.0, "weak": 0.25, "medium": 0.5, "strong": 1.0, "x-strong": 1.5}
RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5}
BLOCKS = ("p", "s")
MOST_BREAK_S = 60.0


@dataclass(frozen=True)
class Speaking:
    """Who speaks, and how fast."""

    voice: str
    rate: float = 1.0

    def tags(self, before: Speaking) -> str:
        """Returns the tags that change how it was before to this. A tag of a voice resets the pace."""
        changed = self.voice != before.voice
        voice = f" [voice:{self.voice}] " if changed else ""
        return voice + (f" [rate:{self.rate:.4g}] " if self.rate != (1.0 if changed else before.rate) else "")


def is_ours(document: str) -> bool:
    """Returns whether our own reader knows all of a document."""
    reader = SsmlReader("en")
    try:
        reader.push(document)
        reader.close()
    except InvalidRequest:
        return False
    return True


def tagged(document: str, voice: str) -> str:
    """Returns the text of a document with tags; a text that is none is returned as it is."""
    if START not in document[:2000]:
        return document
    try:
        root = parse_xml(well_formed(document).encode())
    except ParseError as error:
        raise InvalidRequest(f"the SSML cannot be read: {error}.", param="input") from None
    parts: list[str] = []
    _add(root, Speaking(voice), parts)
    return " ".join("".join(parts).split())


def _add(element: Element, now: Speaking, parts: list[str]) -> None:
    """Adds what an element says. Elements that mean nothing here are their text alone."""
    tag = element.tag.rpartition("}")[2].rpartition(":")[2].lower()
    if tag == "break":
        parts.append(f" [pause:{_break_s(element):.3f}s] ")
        return
    if tag == "sub" and (alias := element.get("alias")):
        parts.append(alias)
        return
    if tag == "desc":  # describes a sound
        return
    inner = now
    if tag == "voice" and (name := (element.get("name") or "").strip()):
        inner = Speaking(name, now.rate)
    elif tag == "prosody":
        inner = Speaking(now.voice, _rate(element.get("rate") or "") or now.rate)
    parts.append(inner.tags(now))
    parts.append(" " if tag in BLOCKS else "")
    parts.append(element.text or "")
    for child in element:
        _add(child, inner, parts)
        parts.append(child.tail or "")
    parts.append(" " if tag in BLOCKS else "")
    parts.append(now.tags(inner))


def _break_s(element: Element) -> float:
    time = (element.get("time") or "").strip().lower()
    number, scale = (time[:-2], 0.001) if time.endswith("ms") else (time.removesuffix("s"), 1.0)
    seconds = _number(number)
    if seconds is None:
        return BREAK_S.get(element.get("strength", "medium"), BREAK_S["medium"])
    return min(seconds * scale, MOST_BREAK_S)


def _rate(text: str) -> float | None:
    """Returns a pace; None if the text is none."""
    text = text.strip().lower()
    if text in RATES:
        return RATES[text]
    number = _number(text.removesuffix("%"))
    rate = None if number is None else number / 100 if text.endswith("%") else number
    return None if rate is None else min(MAX_RATE, max(MIN_RATE, rate))


def _number(text: str) -> float | None:
    """Returns a number that is written in digits, or None."""
    digits = text.strip()
    return float(digits) if digits.replace(".", "", 1).isdecimal() and digits.isascii() and len(digits) < 12 else None
