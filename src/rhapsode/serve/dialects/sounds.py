"""Texts as phonemes, for models that take these in place of a text."""

from __future__ import annotations

from rhapsode.models.kokoro.text.english import american, british
from rhapsode.models.kokoro.text.espeak import phonemes_of
from rhapsode.serve.dialects.tags import TAG
from rhapsode.text.clean import well_formed
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.normalise.language import LANGUAGES as NORMALISED
from rhapsode.text.spoken import SpokenRun

SOUNDS = "](/"


def phonemes(text: str, language: str, *, is_british: bool = False) -> str:
    """Returns a text in phonemes, with its numbers written out."""
    reader = FrontEnd(TextSettings(language=language, normalise=language in NORMALISED))
    runs = [*reader.push(well_formed(text)), *reader.close()]
    said = "".join(run.text for run in runs if isinstance(run, SpokenRun))
    if language == "en":
        return british(said) if is_british else american(said)
    return phonemes_of(said, language)


def with_sounds(text: str, *, is_british: bool) -> str | None:
    """Returns an English text in phonemes, where words with sounds have these; None if it has other tags, too."""
    parts, at = list[str](), 0
    for tag in TAG.finditer(text):
        if not tag["word"]:
            return None
        parts += [_spaced(text[at : tag.start()], is_british), tag["sounds"]]
        at = tag.end()
    return " ".join("".join([*parts, _spaced(text[at:], is_british)]).split())


def _spaced(text: str, is_british: bool) -> str:
    """Returns a part of a text in phonemes, with a blank where the text begins or ends with one."""
    said = phonemes(text, "en", is_british=is_british)
    return f"{' ' * text[:1].isspace()}{said}{' ' * text[-1:].isspace()}"
