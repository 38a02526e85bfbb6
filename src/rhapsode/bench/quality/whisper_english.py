"""Normalises English as Whisper's evaluation does, so that error rates can be compared with published ones.

Written from the rules in the paper on Whisper (arXiv 2212.04356, appendix C). British spellings follow rules for
endings here, not a list of words.
"""

from __future__ import annotations

import re
import unicodedata

from rhapsode.bench.quality.american import american
from rhapsode.bench.quality.whisper_numbers import in_digits

NAME = "whisper-en (rules)"
_KEPT = ".%$¢€£"
_LETTERS = {"œ": "oe", "æ": "ae", "ø": "o", "ß": "ss", "đ": "d", "ð": "d", "þ": "th", "ł": "l"}
_TITLES = {
    "mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor", "capt": "captain",
    "gov": "governor", "ald": "alderman", "gen": "general", "sen": "senator", "rep": "representative",
    "pres": "president", "rev": "reverend", "hon": "honorable", "asst": "assistant", "assoc": "associate",
    "lt": "lieutenant", "col": "colonel", "jr": "junior", "sr": "senior", "esq": "esquire",
}  # fmt: skip
_WORDS = {
    "won't": "will not", "can't": "can not", "let's": "let us", "ain't": "aint", "y'all": "you all",
    "wanna": "want to", "gotta": "got to", "gonna": "going to", "i'ma": "i am going to", "imma": "i am going to",
    "woulda": "would have", "coulda": "could have", "shoulda": "should have", "ma'am": "madam",
}  # fmt: skip
_CONTRACTIONS = (
    (r"'d (?=been\b|gone\b|done\b)", " had "),
    (r"'s (?=been\b|gone\b|done\b|got\b)", " has "),
    (r"n't\b", " not"),
    (r"'re\b", " are"),
    (r"'s\b", " is"),
    (r"'d\b", " would"),
    (r"'ll\b", " will"),
    (r"'t\b", " not"),
    (r"'ve\b", " have"),
    (r"'m\b", " am"),
)
_RULES = (
    (r"[<\[][^>\]]*[>\]]", ""),
    (r"\([^)]*\)", ""),
    (r"\b(?:hmm|mm|mhm|mmm|uh|um)\b", ""),
    (r"\s+'", "'"),
    *((rf"\b{re.escape(word)}\b", written) for word, written in (_WORDS | _TITLES).items()),
    *_CONTRACTIONS,
    (r"(?<=\d),(?=\d)", ""),
    (r"\.(?!\d)", " "),
)


def normalise(text: str) -> str:
    """Returns words with single spaces between them, and numbers in digits."""
    text = re.sub(r"[’‘`´]", "'", text.lower())
    for pattern, written in _RULES:
        text = re.sub(pattern, written, text)
    text = in_digits(without_symbols(text, _KEPT))
    text = " ".join(american(word) for word in text.split())
    text = re.sub(r"[.$¢€£](?!\d)", " ", text)
    text = re.sub(r"(?<!\d)%", " ", text)
    return " ".join(text.split())


def without_symbols(text: str, kept: str = "") -> str:
    """Returns the text without diacritics, and with a space for every mark, symbol and punctuation not in `kept`."""
    plain = []
    for char in unicodedata.normalize("NFKD", text):
        category = unicodedata.category(char)
        if char in kept:
            plain.append(char)
        elif category == "Mn":
            continue
        else:
            plain.append(_LETTERS.get(char, " " if category[0] in "MSP" else char))
    return "".join(plain)
