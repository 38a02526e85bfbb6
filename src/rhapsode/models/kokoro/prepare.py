"""The prepare stage: the text in pieces of phonemes; more may arrive while the first ones are spoken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import SHORT_CHARS, GeneratorPrompt, StageContext, is_short
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of, files_of
from rhapsode.models.kokoro.info import is_british, language_of, voice_names
from rhapsode.models.kokoro.spec import KokoroOptions
from rhapsode.models.kokoro.text.english import american, british
from rhapsode.models.kokoro.text.espeak import DIALECTS, check_language, phonemes_of
from rhapsode.models.kokoro.text.pieces import PieceStream, passages, tokens_of
from rhapsode.models.parts import checkpoint_of
from rhapsode.text.clean import well_formed
from rhapsode.types import SpeechRequest

MOST_GIVEN = 20_000
"""The most phonemes that a request may give: about twenty minutes."""


class Pieces(Protocol):
    """What is spoken, piece by piece."""

    closed: bool

    def pop(self) -> str | None: ...


class GivenPhonemes:
    """Pieces of phonemes that a request gave."""

    closed = True

    def __init__(self, phonemes: str, most: int) -> None:
        lines = [list(passages(tokens_of(line), most)) for line in phonemes.split("\n")]
        self._ready = deque(piece for line in lines for piece in line)

    def pop(self) -> str | None:
        return self._ready.popleft() if self._ready else None


@dataclass
class KokoroPrompt(GeneratorPrompt):
    voice: str = ""
    """A preset, or a mix of some."""
    pieces: Pieces = field(default_factory=lambda: GivenPhonemes("", 1))
    options: KokoroOptions = field(default_factory=KokoroOptions)


class KokoroPrepare:
    def __init__(self, context: StageContext) -> None:
        self._config = read_config(config_of(context.config))
        self._first_voice = voice_names(files_of(checkpoint_of(context)))[0]

    def is_quick(self, request: SpeechRequest) -> bool:
        return is_short(request) and len(request.options.phonemes or "") <= SHORT_CHARS

    def __call__(self, request: SpeechRequest) -> KokoroPrompt:
        options: KokoroOptions = request.options
        voice = request.voice.name or self._first_voice
        if options.phonemes is not None:
            return KokoroPrompt(voice=voice, pieces=self._given(options.phonemes), options=options)
        language = request.language or _language_of(request.text, voice)
        most, by_sentence = self._config.most_phonemes, options.cut == "sentence"
        pieces = PieceStream(_phonemiser(language, voice), most, by_sentence=by_sentence, language=language)
        pieces.push(request.text)
        if not request.text_open:
            pieces.close()
        return KokoroPrompt(voice=voice, pieces=pieces, options=options, feed=pieces if request.text_open else None)

    def _given(self, phonemes: str) -> GivenPhonemes:
        if len(phonemes) > MOST_GIVEN:
            raise InvalidRequest(
                f"there are {len(phonemes)} phonemes; at most {MOST_GIVEN} are taken.", param="phonemes"
            )
        unknown = sorted(set(phonemes) - set(self._config.vocab) - {"\n"})
        if unknown:
            shown = well_formed(" ".join(unknown[:20]))
            known = "".join(self._config.vocab)
            raise InvalidRequest(f"the model has no phonemes {shown}: it has {known}", param="phonemes")
        if not phonemes.strip():
            raise InvalidRequest("phonemes must not be empty.", param="phonemes")
        return GivenPhonemes(phonemes, self._config.most_phonemes)


def _language_of(text: str, voice: str) -> str:
    """Returns the language of a voice; English for Latin letters, if the language has no phonemes here anyway."""
    language = language_of(voice)
    is_latin = all(char.isascii() or not char.isalpha() for char in text)
    return "en" if is_latin and language not in DIALECTS else language


def _phonemiser(language: str, voice: str) -> Callable[[str], str]:
    if language == "en":
        return british if is_british(voice) else american
    check_language(language)
    return partial(phonemes_of, language=language)
