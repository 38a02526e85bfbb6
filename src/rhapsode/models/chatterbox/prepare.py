"""The prepare stage: a draft for each piece of the text. What it lacks is the encoded voice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import Following, StageContext, Traits, is_short
from rhapsode.models.chatterbox.config import read
from rhapsode.models.chatterbox.spec import ChatterboxOptions, ChatterboxSettings
from rhapsode.models.chatterbox.t3.prompt import T3Layout
from rhapsode.models.chatterbox.text.tokenizer import read as read_tokenizer
from rhapsode.models.chatterbox.variants import Kind
from rhapsode.models.chatterbox.voice import Floats, VoiceConditioning, read_presets
from rhapsode.models.parts import checkpoint_of
from rhapsode.text.clean import clean
from rhapsode.text.pieces import PieceStream
from rhapsode.types import Clip, SpeechRequest

EXAGGERATION, CFG_WEIGHT = 0.5, 0.5
"""Upstream's defaults of the original and of the multilingual model."""


@dataclass
class RequestVoice:
    """The voice of a request. It is encoded once, for the first piece of the text."""

    preset: VoiceConditioning | None
    reference: Clip | None
    exaggeration: float
    reference_s: float | None
    """The seconds of the reference that the flow hears."""
    found: VoiceConditioning | None = None
    rows: Floats | None = None  # [voice rows, hidden]


@dataclass(frozen=True)
class ChatterboxPiece:
    """What is spoken next of a request, on its way to `ChatterboxPrepare`."""

    request: SpeechRequest
    voice: RequestVoice
    rest: PieceStream
    """The pieces that come after this one."""
    text: str | None = None
    """`None`: nothing is spoken, because the text is still to come."""
    is_first: bool = True
    """Nothing is heard before it."""


@dataclass(frozen=True)
class ChatterboxDraft:
    """A prompt before its voice is encoded."""

    ids: list[int] | None
    """`None`: the prompt is context only."""
    voice: RequestVoice
    cfg_weight: float
    is_first: bool
    feed: PieceStream | None
    following: Callable[[], Any]


class ChatterboxPrepare:
    """Turns a checked request, and then each piece of its text, into a draft."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        settings: ChatterboxSettings = context.settings
        self._config = config = read(context.config, folder, settings.t3)
        self._guided = settings.guidance
        self._encode = read_tokenizer(folder, config.kind, config.t3.text_rows)
        self._presets = read_presets(folder, config.t3, bool(context.config))
        self._most_ids = T3Layout(config.t3).most_text

    def traits(self) -> Traits:
        return Traits(is_quick=is_short)

    def __call__(self, work: SpeechRequest | ChatterboxPiece) -> ChatterboxDraft:
        piece = work if isinstance(work, ChatterboxPiece) else self._first(work)
        request, options = piece.request, piece.request.options
        rest = replace(piece, text=None, is_first=piece.is_first and piece.text is None)
        return ChatterboxDraft(
            None if piece.text is None else self._ids(piece.text, request),
            piece.voice,
            _cfg_weight(options, self._guided and not self._config.kind.is_turbo),
            piece.is_first,
            piece.rest if request.text_open else None,
            lambda: _after(rest),
        )

    def _first(self, request: SpeechRequest) -> ChatterboxPiece:
        options: ChatterboxOptions = request.options
        self._check(options)
        reference = request.voice.references[0].audio if request.voice.references else None
        preset = None if reference is not None else self._preset(request.voice.name)
        exaggeration = EXAGGERATION if options.exaggeration is None else options.exaggeration
        voice = RequestVoice(preset, reference, exaggeration, options.reference_s)
        rest = PieceStream(language=request.language or "en", first_chars=options.first_piece_chars)
        rest.push(request.text if request.text_open else clean(request.text))
        if not request.text_open:
            rest.close()
        return ChatterboxPiece(request, voice, rest, rest.pop())

    def _ids(self, text: str, request: SpeechRequest) -> list[int]:
        language = request.language if self._config.kind is Kind.MULTILINGUAL else None
        ids = self._encode(text, language, lenient=request.options.lenient_text)
        if len(ids) > self._most_ids:
            raise TextTooLong(
                f"a sentence of the text has {len(ids)} tokens; this model takes at most {self._most_ids}: cut it.",
                param="input",
            )
        return ids

    def _check(self, options: ChatterboxOptions) -> None:
        """Raises `InvalidRequest` for options that this variant has not."""
        if self._config.kind.is_turbo:
            for name in ("exaggeration", "cfg_weight"):
                if getattr(options, name) is not None:
                    raise InvalidRequest(
                        f"'{name}' has no effect on a {self._config.kind.value} model: leave it out.", param=name
                    )
        elif options.cfg_weight and not self._guided:
            raise InvalidRequest(
                "'cfg_weight' must be 0 or absent: this deployment has 'guidance: false'.", param="cfg_weight"
            )

    def _preset(self, name: str | None) -> VoiceConditioning:
        found = self._presets.get(name) if name else next(iter(self._presets.values()), None)
        if found is None:
            raise InvalidRequest("this checkpoint has no preset voice: give a reference.", param="voice")
        return found


def _cfg_weight(options: ChatterboxOptions, guided: bool) -> float:
    if not guided:
        return 0.0
    return CFG_WEIGHT if options.cfg_weight is None else options.cfg_weight


def _after(rest: ChatterboxPiece) -> ChatterboxPiece | Following | None:
    """Returns the piece that follows a prompt."""
    if (text := rest.rest.pop()) is not None:
        return replace(rest, text=text)
    return None if rest.rest.closed else Following.NOT_YET
