"""Reads a useful part of SSML, whole or as it arrives: no entities, no DTD, bounded depth."""

from __future__ import annotations

import re
from xml.parsers import expat

from rhapsode.errors import InvalidRequest
from rhapsode.text.content import ends_sentence, full_stop
from rhapsode.text.events import Bookmark, Pause, RateChange, TextEvent
from rhapsode.text.say_as import KINDS, say_as
from rhapsode.text.spoken import SpokenRun

ELEMENTS = ("speak", "p", "s", "break", "sub", "say-as", "prosody", "mark")
MOST_DEPTH = 16
MOST_BREAK_S = 20.0
MIN_RATE, MAX_RATE = 0.25, 4.0

_ATTRIBUTES = {
    "speak": ("version", "xmlns", "xml:lang"),
    "break": ("time", "strength"),
    "sub": ("alias",),
    "say-as": ("interpret-as", "format", "detail"),
    "prosody": ("rate",),
    "mark": ("name",),
}
_STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.25, "medium": 0.5, "strong": 0.75, "x-strong": 1.0}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.75}
_TIME = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s)")
_RATE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(%?)")


class SsmlReader:
    """Reads a document that arrives in pieces, and returns its text, pauses, rates and bookmarks."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._data = bytearray()
        self._byte = self._char = 0  # the same place, in bytes and in characters
        self._open: list[str] = []
        self._rates = [1.0]
        self._replaced: tuple[str, dict[str, str], int] | None = None
        self._inside = ""
        self._last = ""  # the last character said in this sentence
        self._events: list[TextEvent] = []
        self._parser = self._new_parser()

    def push(self, text: str) -> list[TextEvent]:
        """Takes a piece of the document; returns what is complete."""
        self._data += text.encode("utf-8", "replace")
        self._parse(text, final=False)
        return self._taken()

    def close(self) -> list[TextEvent]:
        """Ends the document; raises if it is not complete."""
        self._parse("", final=True)
        return self._taken()

    def _taken(self) -> list[TextEvent]:
        events, self._events = self._events, []
        return events

    def _new_parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse("a DOCTYPE")
        parser.EntityDeclHandler = self._refuse("entities")
        parser.StartCdataSectionHandler = self._refuse("CDATA")
        parser.ProcessingInstructionHandler = self._refuse("processing instructions")
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)  # report even a short tag as soon as it is complete
        return parser

    @staticmethod
    def _refuse(what: str) -> expat._Handler:  # type: ignore[name-defined]
        def refuse(*_: object) -> None:
            raise _wrong(f"SSML with {what} is not taken")

        return refuse

    def _parse(self, text: str, final: bool) -> None:
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), final)
        except expat.ExpatError as error:
            where = f"line {error.lineno}, column {error.offset + 1}"
            raise _wrong(f"the SSML is not well formed at {where}: {expat.ErrorString(error.code)}") from None

    # --- what the parser finds ---

    def _start(self, tag: str, given: dict[str, str]) -> None:
        if tag not in ELEMENTS:
            raise _wrong(f"<{tag[:40]}> is not supported; SSML here has: {', '.join(ELEMENTS)}")
        if not self._open and tag != "speak":
            raise _wrong("SSML begins with <speak>")
        if self._open and tag == "speak":
            raise _wrong("<speak> stands once, around everything")
        if self._replaced is not None or (self._open and self._open[-1] in ("break", "mark")):
            raise _wrong(f"<{self._open[-1]}> holds no other elements")
        if len(self._open) >= MOST_DEPTH:
            raise _wrong(f"SSML is nested at most {MOST_DEPTH} deep")
        self._check_attributes(tag, given)
        self._open.append(tag)
        match tag:
            case "p" | "s":
                self._end_sentence()
            case "break":
                self._events.append(Pause(_break_s(given)))
            case "sub" | "say-as":
                self._begin_replaced(tag, given)
            case "prosody":
                self._rates.append(self._rates[-1] * _rate(given))
                self._events.append(RateChange(min(MAX_RATE, max(MIN_RATE, self._rates[-1]))))
            case "mark":
                if not given.get("name"):
                    raise _wrong("<mark> needs a name")
                self._events.append(Bookmark(given["name"][:256], self._here()))

    def _end(self, tag: str) -> None:
        self._open.pop()
        match tag:
            case "p" | "s":
                self._end_sentence()
            case "sub" | "say-as":
                self._end_replaced()
            case "prosody":
                self._rates.pop()
                self._events.append(RateChange(min(MAX_RATE, max(MIN_RATE, self._rates[-1]))))

    def _text(self, text: str) -> None:
        start = self._here()
        if self._open and self._open[-1] in ("break", "mark") and text.strip():
            raise _wrong(f"<{self._open[-1]}> holds no text")
        if self._replaced is not None:
            self._inside += text
            return
        byte = self._parser.CurrentByteIndex
        source = self._data[byte : byte + 2]
        if source[:1] == b"&":
            stop = start + self._data.index(b";", byte) + 1 - byte
            self._events.append(SpokenRun(text, start, stop))
        elif source[:1] == b"\r":
            self._events.append(SpokenRun(text, start, start + (2 if source == b"\r\n" else 1)))
        else:
            self._events.append(SpokenRun(text, start, start + len(text), copied=True))
        self._last = text.rstrip()[-1:] or self._last

    # --- elements ---

    def _begin_replaced(self, tag: str, given: dict[str, str]) -> None:
        if tag == "sub" and not given.get("alias", "").strip():
            raise _wrong("<sub> needs an alias")
        kind = given.get("interpret-as", "")
        if tag == "say-as" and kind not in KINDS:
            raise _wrong(f"<say-as> has interpret-as: {', '.join(KINDS)}; not '{kind[:40]}'")
        self._replaced, self._inside = (tag, given, self._here()), ""

    def _end_replaced(self) -> None:
        assert self._replaced is not None
        (tag, given, start), self._replaced = self._replaced, None
        stop = self._here() + len(f"</{tag}>")
        if tag == "sub":
            said = given["alias"]
        else:
            said = say_as(given["interpret-as"], self._inside, given.get("format", ""), self._language)
        self._events.append(SpokenRun(said, start, stop, fixed=True))
        self._last = said.rstrip()[-1:] or self._last

    def _end_sentence(self) -> None:
        """Ends the current sentence at the start or end of `<p>` and `<s>`; adds a full stop where it has none."""
        if self._last:
            here = self._here()
            stop = "" if ends_sentence(self._last) else full_stop(self._language)
            self._events.append(SpokenRun(f"{stop} ", here, here, fixed=True))
        self._last = ""

    def _check_attributes(self, tag: str, given: dict[str, str]) -> None:
        known = _ATTRIBUTES.get(tag, ())
        for name in given:
            if name not in known and not (tag == "speak" and name.startswith(("xmlns:", "xsi:"))):
                right = f"it takes: {', '.join(known)}" if known else "it takes none"
                raise _wrong(f"<{tag}> has no attribute '{name[:40]}' here; {right}")

    def _here(self) -> int:
        """Returns the index of the character at which the parser stands."""
        byte = self._parser.CurrentByteIndex
        self._char += len(self._data[self._byte : byte].decode("utf-8", "replace"))
        self._byte = byte
        return self._char


def _break_s(given: dict[str, str]) -> float:
    if "time" not in given:
        strength = given.get("strength", "medium")
        if strength not in _STRENGTHS:
            raise _wrong(f"<break> has a strength of {', '.join(_STRENGTHS)}; not '{strength[:40]}'")
        return _STRENGTHS[strength]
    found = _TIME.fullmatch(given["time"].strip())
    if found is None:
        raise _wrong(f"<break> has a time such as 500ms or 1.5s, not '{given['time'][:40]}'")
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    if seconds > MOST_BREAK_S:
        raise _wrong(f"<break> lasts at most {MOST_BREAK_S:g} s, not {seconds:g} s")
    return seconds


def _rate(given: dict[str, str]) -> float:
    text = given.get("rate", "").strip()
    found = _RATE.fullmatch(text)
    rate = _RATES.get(text) or (float(found[1]) / (100 if found[2] else 1) if found else 0.0)
    if not MIN_RATE <= rate <= MAX_RATE:
        raise _wrong(f"<prosody> has a rate such as slow, fast, 80% or 1.2, between 25% and 400%; not '{text[:40]}'")
    return rate


def _wrong(message: str) -> InvalidRequest:
    return InvalidRequest(f"{message}.", param="input")
