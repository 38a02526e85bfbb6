"""Finds what of a text is to stay as it is written, as entries of a lexicon: a word that is respelt as itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rhapsode.text.lexicon import MOST_ATOMS, MOST_WORD_CHARS
from rhapsode.text.word_tree import phrase_atoms

MOST_ENTRIES = 256
KINDS = {
    "url": re.compile(r"(?:https?://|www\.)[^\s<>\"]{1,100}"),
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}"),
    "phone": re.compile(r"\+?\(?\d[\d ().-]{5,20}\d"),
    "unit": re.compile(
        r"\d{1,12}(?:[.,]\d{1,6})? ?(?:[cmnµk]?m/s|k?m/h|[cmnµk]?m|mi|yds?|ft|in|[mk]?g|lbs?|oz|[mcd]?[lL]|gal|mph|kph"
        r"|ms|secs?|s|mins?|h|hrs?|yrs?|[kMG]?Hz|[kKMGT]?B|[kMG]bps|[kM]?Wh?|[mk]?V|m?A|°[CF]?|[kM]?Pa|[kM]?J)\b"
    ),
    "symbol": re.compile(r"[&@#%^*_|=+<>~$]"),
}
"""What to look for. All of it is short, so that a long text takes no longer than it must."""


def as_written(text: str, kinds: Iterable[str]) -> dict[str, str] | None:
    """Returns the entries for these kinds; None if they are more, or longer, than a lexicon takes."""
    found = {one[0].rstrip(".,;:!?)'") for kind in kinds for one in KINDS[kind].finditer(text)}
    fits = all(len(one) <= MOST_WORD_CHARS and len(list(phrase_atoms(one))) <= MOST_ATOMS for one in found)
    return {one: one for one in sorted(found)} if fits and len(found) <= MOST_ENTRIES else None
