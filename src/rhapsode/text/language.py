"""Languages by code and by name: a request may say `en`, `English` or `auto`."""

from __future__ import annotations

AUTO = "auto"

NAMES = {
    "ar": "arabic",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "he": "hebrew",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "km": "khmer",
    "ko": "korean",
    "lo": "lao",
    "ms": "malay",
    "my": "burmese",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "sw": "swahili",
    "th": "thai",
    "tl": "tagalog",
    "tr": "turkish",
    "uk": "ukrainian",
    "vi": "vietnamese",
    "zh": "chinese",
}
"""English names of languages by their ISO 639-1 codes."""

_CODES = {name: code for code, name in NAMES.items()}


def code_of(language: str) -> str:
    """Returns the code of a language given by code or name, in any case; another word comes back in lower case."""
    word = language.strip().lower()
    return _CODES.get(word, word)


def name_of(code: str) -> str:
    """Returns the English name of a language in lower case; a code without one is its own name."""
    return NAMES.get(code, code)
