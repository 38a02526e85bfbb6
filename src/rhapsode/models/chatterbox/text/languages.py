"""How the multilingual model reads a language: by sounds where its script does not show them.

Four languages need a package each. Where it is missing, upstream goes on without it, which is heard; here a request is
refused, unless it says `lenient_text`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any
from unicodedata import normalize

from rhapsode.errors import InvalidRequest
from rhapsode.extras import how_to_add, how_to_install

LANGUAGES = (
    *("ar", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "it", "ja"),
    *("ko", "ms", "nl", "no", "pl", "pt", "ru", "sv", "sw", "tr", "zh"),
)
PACKAGES = {"ja": "pykakasi", "zh": "spacy_pkuseg", "he": "dicta_onnx", "ru": "russian_text_stresser"}
"""The module that a language needs: readings of kanji, words of Chinese, vowels of Hebrew, stress of Russian."""
OF_THE_EXTRA = ("ja", "zh")
STRESSER = "git+https://github.com/Vuizur/add-stress-to-epub"
"""Where the package for Russian is: it is in no index."""
KANJI = ("\u4e00", "\u9fff")
PARTICLES = ("は", "へ")
"""A reading that begins so gets a space, or it would be read as a particle."""

Spell = Callable[[str], str]


def spelled(text: str, language: str | None, *, lenient: bool = False) -> str:
    """Returns a punctuated text in the letters that the tokenizer has. Chinese characters become codes later."""
    text = normalize("NFKD", text.lower())
    if language == "ko":
        return text.strip()  # NFKD has taken syllables apart already
    if language not in PACKAGES:
        return text
    try:
        spell = _speller(language)
    except ImportError:
        if lenient:
            return text
        raise InvalidRequest(_what_to_install(language), param="language") from None
    return spell(text)


def _speller(language: str) -> Spell:
    makers: dict[str, Callable[[Any], Spell]] = {
        "ja": lambda module: lambda text: _with_readings(module.kakasi().convert(text)),
        "zh": lambda module: lambda text: " ".join(_made("zh", module.pkuseg).cut(text)),
        "he": lambda module: lambda text: _made("he", module.Dicta).add_diacritics(text),
        "ru": lambda module: lambda text: _made("ru", module.text_stresser.RussianTextStresser).stress_text(text),
    }
    name = PACKAGES[language]
    if language == "ru":
        importlib.import_module(f"{name}.text_stresser")
    return makers[language](importlib.import_module(name))


@cache
def _made(language: str, maker: Callable[[], Any]) -> Any:
    """Makes the object of a package once: it loads a dictionary or a network."""
    return maker()


def _with_readings(words: Iterable[dict[str, str]]) -> str:
    """Returns Japanese with kanji read as hiragana."""
    found = []
    for word in words:
        written, read = word["orig"], word["hira"]
        if any(KANJI[0] <= character <= KANJI[1] for character in written):
            found.append(f" {read}" if read.startswith(PARTICLES) else read)
        else:
            found.append(written)
    return normalize("NFKD", "".join(found))


def _what_to_install(language: str) -> str:
    package = PACKAGES[language].replace("_", "-")
    how = how_to_install("chatterbox") if language in OF_THE_EXTRA else how_to_add(package)
    if language == "ru":
        how = how_to_add(STRESSER)
    return (
        f"'{language}' is read with the help of {package}, which is not installed: {how}; or set 'lenient_text', and "
        "the text is read as it is written."
    )
