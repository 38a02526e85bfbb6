"""Phonemes of other languages, by the command espeak-ng where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

from rhapsode.errors import InvalidRequest, Unavailable
from rhapsode.text.language import name_of

COMMAND = "espeak-ng"
DIALECTS = {"es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt": "pt-br"}
"""The voices of espeak-ng that the model was trained on."""
INSTALL = "install espeak-ng (apt install espeak-ng, dnf install espeak-ng, brew install espeak-ng)"
TIMEOUT_S = 20.0

_SIGNS = re.compile(r"([\s]*[;:,.!?¡¿—…\"«»“”(){}\[\]]+[\s]*)+")
_BEFORE = str.maketrans({"«": "“", "»": "”"})
_OTHER_LANGUAGE = re.compile(r"\([a-z-]+\)")
_SOUNDS = {
    "a^ɪ": "I", "a^ʊ": "W", "e^ɪ": "A", "o^ʊ": "O", "ə^ʊ": "Q", "ɔ^ɪ": "Y",
    "d^ʒ": "ʤ", "t^ʃ": "ʧ", "d^z": "ʣ", "t^s": "ʦ", "s^s": "S",
}  # fmt: skip
"""Pairs that espeak-ng ties, and the one symbol that the model has for them."""


def is_installed() -> bool:
    return shutil.which(COMMAND) is not None


def phonemes_of(text: str, language: str) -> str:
    """Returns the phonemes of a text in one of `DIALECTS`. Signs stay where they are."""
    check_language(language)
    text = " ".join(text.translate(_BEFORE).split())
    words, signs, at = list[str](), list[str](), 0
    for found in _SIGNS.finditer(text):
        words.append(text[at : found.start()])
        signs.append(found[0])
        at = found.end()
    words.append(text[at:])
    said = _run([part for part in words if part], DIALECTS[language])
    told = iter(map(as_symbols, said))
    return "".join((next(told) if part else "") + sign for part, sign in zip(words, [*signs, ""], strict=True)).strip()


def check_language(language: str) -> None:
    """Raises if this machine cannot make phonemes of a language."""
    if language not in DIALECTS:
        right = "give them in the option 'phonemes', made by misaki for example"
        raise InvalidRequest(
            f"{name_of(language).capitalize()} cannot be told in phonemes here: {right}.", param="language"
        )
    if not is_installed():
        right = f"{INSTALL}, or give phonemes in the option 'phonemes'"
        raise InvalidRequest(
            f"{name_of(language).capitalize()} needs the command {COMMAND} here: {right}.", param="language"
        )


def as_symbols(ipa: str) -> str:
    """Returns what espeak-ng prints, with ties, in the model's symbols."""
    said = _OTHER_LANGUAGE.sub("", ipa)
    for tied, symbol in _SOUNDS.items():
        said = said.replace(tied, symbol)
    return " ".join(said.replace("^", "").replace("-", "").split())


def _run(parts: list[str], dialect: str) -> list[str]:
    """Returns a line of phonemes for each part."""
    if not parts:
        return []
    command = [COMMAND, "-q", "--ipa", "--tie=^", "-v", dialect]
    try:
        done = subprocess.run(
            command, input="\n".join(parts), capture_output=True, timeout=TIMEOUT_S, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError, UnicodeError) as error:
        raise Unavailable(f"{COMMAND} failed: {str(error)[:200]}") from None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if len(lines) == len(parts):
        return lines
    if len(parts) == 1:  # a long part comes in several lines
        return [" ".join(lines)]
    return [_run([part], dialect)[0] for part in parts]
