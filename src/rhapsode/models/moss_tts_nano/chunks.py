"""Splits a long text into chunks that are spoken one by one, as upstream does for cloned voices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

SENTENCE_ENDS = frozenset(".!?。！？；;")
CLAUSE_ENDS = frozenset(",，、；;：:")
CLOSING = frozenset("\"'”’)]}）】》」』")
BOUNDARIES = SENTENCE_ENDS | CLAUSE_ENDS | {" "}
NEAR_CHARS = 24
"""A clause that is too long is cut at a boundary, if one is within so many characters of the longest cut."""

LONGEST_PIECE = 16
"""Characters of the longest token, as SentencePiece trains by default: bounds the text that is counted."""

SHORT_WORDS, PAUSE_AFTER_SHORT_S, PAUSE_S = 4, 0.4, 0.24
_CJK = (("\u3040", "\u30ff"), ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7af"))

Count = Callable[[str], int]
"""Returns how many tokens a text has."""


def chunks_of(text: str, most_tokens: int, count: Count) -> list[str]:
    """Returns the chunks of a text; the text as it is, if it is one chunk."""
    found = split(text, most_tokens, count) if most_tokens > 0 else []
    return found if len(found) > 1 else [text]


def split(text: str, most_tokens: int, count: Count) -> list[str]:
    """Cuts a text into sentences, long ones into clauses, long clauses anywhere, and joins neighbours that fit."""
    pieces = [
        piece
        for sentence in _cut_after(prepared(text), SENTENCE_ENDS)
        for piece in _fitting(sentence, most_tokens, count)
    ]
    chunks: list[str] = []
    for piece in pieces:
        if chunks and count(chunks[-1]) + count(piece) <= most_tokens:
            chunks[-1] = _joined(chunks[-1], piece)
        else:
            chunks.append(piece)
    return chunks


def pause_after_s(chunk: str) -> float:
    """Returns the silence between a chunk and the next."""
    return PAUSE_AFTER_SHORT_S if len(chunk.split()) <= SHORT_WORDS else PAUSE_S


def prepared(text: str) -> str:
    """Returns the text in one line, with an end mark and, outside Chinese, Japanese and Korean, a capital letter."""
    text = " ".join(part for part in text.strip().replace("\n", " ").replace("\r", " ").split(" ") if part)
    if has_cjk(text):
        return text if text[-1] in SENTENCE_ENDS else text + "。"
    text = text[:1].upper() + text[1:]
    return text + "." if text[-1:].isalnum() else text


def has_cjk(text: str) -> bool:
    return any(first <= char <= last for char in text for first, last in _CJK)


def _cut_after(text: str, marks: frozenset[str]) -> Iterator[str]:
    """Yields pieces that end with one of the marks; quotes and brackets that close there belong to the piece."""
    start = at = 0
    while at < len(text):
        at += 1
        if text[at - 1] in marks:
            while at < len(text) and text[at] in CLOSING:
                at += 1
            yield text[start:at].strip()
            while at < len(text) and text[at].isspace():
                at += 1
            start = at
    if rest := text[start:].strip():
        yield rest


def _fits(text: str, most_tokens: int, count: Count) -> bool:
    return len(text) <= LONGEST_PIECE * most_tokens and count(text) <= most_tokens


def _fitting(sentence: str, most_tokens: int, count: Count) -> Iterator[str]:
    if _fits(sentence, most_tokens, count):
        yield sentence
        return
    for clause in _cut_after(sentence, CLAUSE_ENDS):
        rest = clause
        while rest and not _fits(rest, most_tokens, count):
            at = _cut_at(rest, most_tokens, count)
            piece, rest = rest[:at].strip(), rest[at:].strip()
            yield piece
        if rest:
            yield rest


def _cut_at(text: str, most_tokens: int, count: Count) -> int:
    """Returns where to cut a text without spaces at its ends, so that the part before the cut fits."""
    low, high, longest = 1, min(len(text), LONGEST_PIECE * most_tokens), 1
    while low <= high:
        middle = (low + high) // 2
        if count(text[:middle].strip()) <= most_tokens:
            longest, low = middle, middle + 1
        else:
            high = middle - 1
    for at in range(longest, max(0, longest - NEAR_CHARS), -1):
        if text[at - 1] in BOUNDARIES:
            return at
    return longest


def _joined(left: str, right: str) -> str:
    return left + right if has_cjk(left) or has_cjk(right) else f"{left} {right}"
