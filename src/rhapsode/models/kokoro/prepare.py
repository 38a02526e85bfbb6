"""The prepare stage: a prompt for each piece of the text; more text may arrive while the first ones are spoken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import Following, Prompt, StageContext
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of, files_of
from rhapsode.models.kokoro.info import is_british, language_of, voice_names
from rhapsode.models.kokoro.renderer import PhonemeSentence
from rhapsode.models.kokoro.spec import KokoroOptions
from rhapsode.models.kokoro.text.english import american, british
from rhapsode.models.kokoro.text.espeak import DIALECTS, check_language, phonemes_of
from rhapsode.models.kokoro.text.pieces import passages, plain, tokens_of
from rhapsode.models.kokoro.trim import Edges
from rhapsode.models.kokoro.voices import VoiceStyles
from rhapsode.models.parts import checkpoint_of
from rhapsode.text.clean import well_formed
from rhapsode.text.pieces import PieceStream
from rhapsode.types import SpeechRequest

if TYPE_CHECKING:
    Phonemise = Callable[[str], str]

MOST_GIVEN = 20_000
"""The most phonemes that a request may give: about twenty minutes."""
MOST_FRAMES, MOST_MORE = 20, 200
"""More frames than this for each phoneme, and these for the silence around them, are no speech."""


@dataclass
class KokoroPrompt(Prompt):
    sentence: PhonemeSentence | None = None
    """`None`: nothing is spoken, such as where the text is still to come."""
    edges: Edges | None = None
    """How silence around the sentence is cut; `None`: it stays."""


@dataclass(frozen=True)
class KokoroPiece:
    """What is spoken next of a request, on its way to `KokoroPrepare`."""

    request: SpeechRequest
    voice: str
    phonemise: Phonemise
    rest: PieceStream
    """The pieces that come after this one."""
    text: str = ""
    said: tuple[str, ...] = ()
    """Passages of phonemes, spoken in place of the text."""
    is_first: bool = True
    """Nothing is heard before it."""


class KokoroPrepare:
    def __init__(self, context: StageContext) -> None:
        files = files_of(checkpoint_of(context))
        self._config = read_config(config_of(context.config))
        self._first_voice = voice_names(files)[0]
        self._styles = VoiceStyles(files, self._config)
        self._sample_rate = context.spec.sample_rate
        american("ready")  # reads the lexicon, which no request should wait for

    def __call__(self, work: SpeechRequest | KokoroPiece) -> KokoroPrompt:
        piece = work if isinstance(work, KokoroPiece) else self._first(work)
        said = piece.said or tuple(passages(tokens_of(piece.phonemise(piece.text)), self._config.most_phonemes))
        spoken = [(phonemes, ids) for phonemes in said if (ids := self._ids(phonemes))]
        is_first = piece.is_first and not spoken
        rest = replace(piece, text="", said=tuple(phonemes for phonemes, _ in spoken[1:]), is_first=is_first)
        feed = piece.rest if piece.request.text_open else None
        prompt = KokoroPrompt(max_frames=0, feed=feed, following=lambda: _after(rest))
        if not spoken:
            return prompt
        phonemes, ids = spoken[0]
        options: KokoroOptions = piece.request.options
        style = self._styles.style(piece.voice, len(phonemes))
        prompt.sentence = PhonemeSentence((0, *ids, 0), style, options.model_speed)
        prompt.max_frames = ceil((MOST_FRAMES * len(ids) + MOST_MORE) / options.model_speed)
        if options.trim:
            prompt.edges = Edges.of(options.pause_s, self._sample_rate, is_first=piece.is_first)
            prompt.max_frames += prompt.edges.pause // self._config.samples_per_frame + 1
        return prompt

    def _first(self, request: SpeechRequest) -> KokoroPiece:
        options: KokoroOptions = request.options
        voice = request.voice.name or self._first_voice
        language = request.language or _language_of(request.text, voice)
        by_sentence = options.cut == "sentence"
        first = options.first_piece_chars
        rest = PieceStream(by_sentence=by_sentence, language=language, first_chars=first, plain=plain)
        if options.phonemes is not None:
            rest.close()
            return KokoroPiece(request, voice, str, rest, said=self._given(options.phonemes))
        phonemise = _phonemiser(language, voice)
        rest.push(request.text)
        if not request.text_open:
            rest.close()
        return KokoroPiece(request, voice, phonemise, rest, rest.pop() or "")

    def _ids(self, phonemes: str) -> list[int]:
        """Returns the ids of a passage. Symbols that the model does not have are left out."""
        vocabulary = self._config.vocab
        return [vocabulary[symbol] for symbol in phonemes if symbol in vocabulary]

    def _given(self, phonemes: str) -> tuple[str, ...]:
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
        most = self._config.most_phonemes
        return tuple(passage for line in phonemes.split("\n") for passage in passages(tokens_of(line), most))


def _after(rest: KokoroPiece) -> KokoroPiece | Following | None:
    """Returns what follows a prompt: the other passages of its piece, or the next piece."""
    if rest.said:
        return rest
    if (text := rest.rest.pop()) is not None:
        return replace(rest, text=text)
    return None if rest.rest.closed else Following.NOT_YET


def _language_of(text: str, voice: str) -> str:
    """Returns the language of a voice; English for Latin letters, if the language has no phonemes here anyway."""
    language = language_of(voice)
    is_latin = all(char.isascii() or not char.isalpha() for char in text)
    return "en" if is_latin and language not in DIALECTS else language


def _phonemiser(language: str, voice: str) -> Phonemise:
    if language == "en":
        return british if is_british(voice) else american
    check_language(language)
    return partial(phonemes_of, language=language)
