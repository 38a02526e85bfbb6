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

CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fil fj fo fr fy ga gd gl gn gu gv ha haw he hi ho hr ht hu hy hz ia id ie ig "
    "ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi "
    "mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa "
    "sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz "
    "ve vi vo wa wo xh yi yo yue za zh zu".split()
)
"""The codes of ISO 639-1, and `fil`, `haw` and `yue`, which have three letters: the languages that there are."""

_CODES = {name: code for code, name in NAMES.items()}


def code_of(language: str) -> str:
    """Returns the code of a language given by code or name, in any case; another word comes back in lower case."""
    word = language.strip().lower()
    return _CODES.get(word, word)


def name_of(code: str) -> str:
    """Returns the English name of a language in lower case; a code without one is its own name."""
    return NAMES.get(code, code)
