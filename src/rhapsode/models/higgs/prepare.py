"""The prepare stage: checks and tokenises a request, a text at a time. Drafts lack only encoded references."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from rhapsode.checkpoints.tokenizer import Encode
from rhapsode.errors import BadAudio, InvalidRequest
from rhapsode.models.base import StageContext, Traits, is_short
from rhapsode.models.higgs import chat, tokenizer
from rhapsode.models.higgs.config import HiggsConfig, read_v2, read_v3
from rhapsode.models.higgs.draft import HiggsDraft, NextText, Piece, Rest, following_of
from rhapsode.models.higgs.prompt import RepetitionWindow
from rhapsode.models.higgs.repetition import usual_window
from rhapsode.models.higgs.sections import HiggsSections
from rhapsode.models.higgs.spec import HiggsV2Options, HiggsV3Options
from rhapsode.models.parts import checkpoint_of
from rhapsode.text.turns import NO_SPEAKERS, SpeakerTag, TurnStream, turns_of
from rhapsode.types import Clip, Reference, SpeechRequest

FRAMES_PER_TOKEN, SPARE_FRAMES = 24, 200
"""More than any text needs: almost a second a token (speech takes about 0.3 s), and eight seconds for pauses."""
OPEN_POSITIONS = 4096
"""Positions that a text of unknown length reserves, for two minutes of speech and more. Then a new context begins."""
MOST_CHARS = 300
"""The most characters of a sentence, where a text is spoken sentence by sentence."""
REFERENCE_S = (0.1, 100.0)
"""The shortest and the longest reference, in seconds."""


class HiggsPrepare(ABC):
    """Turns a checked request into the draft of its first prompt, and each text after it into another."""

    tag: SpeakerTag = NO_SPEAKERS
    continues: bool
    """Whether a following text continues in the context of the texts before it."""

    def __init__(self, config: HiggsConfig, encode: Encode) -> None:
        self._encode = encode
        self._silent_steps = config.books - 1

    @abstractmethod
    def check(self, request: SpeechRequest) -> None:
        """Raises if a request asks for what this model cannot do."""

    @abstractmethod
    def texts(self, request: SpeechRequest) -> list[str]:
        """Returns the text in the pieces that are generated one after the other."""

    @abstractmethod
    def beginning(self, request: SpeechRequest, text: str | None) -> list[Piece]:
        """Returns the pieces of a prompt with a new context; without a text, those of the context only."""

    def continuing(self, text: str, is_first: bool) -> list[Piece]:
        """Returns the pieces of a prompt that continues a context; `is_first` if no text was spoken in it yet."""
        raise NotImplementedError

    def repetition(self, request: SpeechRequest) -> RepetitionWindow:
        return RepetitionWindow()

    def traits(self) -> Traits:
        return Traits(is_quick=is_short)

    def __call__(self, work: SpeechRequest | NextText) -> HiggsDraft:
        if isinstance(work, NextText):
            return self._next(work)
        check_references(work.voice.references)
        self.check(work)
        if work.text_open:
            stream = TurnStream(self.tag, MOST_CHARS)
            stream.push(work.text)
            return self._beginning(work, None, stream)
        texts = self.texts(work)
        if not texts:
            raise InvalidRequest("the text has no words: there is nothing to say.", param="input")
        if not self.continues and work.options.chunk:  # like text that arrives: the context, then a sentence at a time
            return self._beginning(work, None, tuple(texts))
        first, *rest = texts
        return self._beginning(work, first, tuple(rest), sum(map(self._positions, rest)))

    def _beginning(
        self, request: SpeechRequest, text: str | None, rest: Rest, later_positions: int | None = None
    ) -> HiggsDraft:
        """`later_positions` is `None` where the texts that follow are not known yet."""
        if later_positions is None:
            later_positions = OPEN_POSITIONS if self.continues else 0
        return HiggsDraft(
            self.beginning(request, text),
            0 if text is None else self._most_frames(text),
            self.repetition(request),
            later_positions,
            following_of(request, rest, is_first=text is None),
            rest if isinstance(rest, TurnStream) else None,
        )

    def _next(self, work: NextText) -> HiggsDraft:
        afresh = self._beginning(work.request, work.text, work.rest)
        if not self.continues:
            return replace(afresh, new_segment=not work.is_first)
        pieces = self.continuing(work.text, work.is_first)
        return replace(afresh, pieces=pieces, later_positions=0, continues=True, afresh=afresh)

    def _most_frames(self, text: str) -> int:
        return SPARE_FRAMES + FRAMES_PER_TOKEN * len(self._encode(text))

    def _positions(self, text: str) -> int:
        """Returns how many positions a text needs if it continues a context."""
        pieces = self.continuing(text, is_first=False)
        tokens = sum(len(piece) for piece in pieces if not isinstance(piece, Clip))
        return tokens + self._silent_steps + self._most_frames(text)


class HiggsV2Prepare(HiggsPrepare):
    tag = chat.SPEAKER
    continues = True

    def __init__(self, context: StageContext) -> None:
        folder, config = checkpoint_of(context), read_v2(context.config)
        super().__init__(config, tokenizer.read(folder))
        tokens = tokenizer.ControlTokens(folder, config.body.vocab_size)
        self._chat = chat.HiggsChat(self._encode, tokens, config.books, config.codes + 1)
        self._window = usual_window(folder)

    def check(self, request: SpeechRequest) -> None:
        options: HiggsV2Options = request.options
        if not request.text_open and not chat.without_speakers(request.text).strip():
            raise InvalidRequest("the text has speakers' tags and no words: there is nothing to say.", param="input")
        lines, given = chat.open_lines(options.scene), len(request.voice.references)
        if lines and lines != given:
            raise InvalidRequest(
                f"the scene has {lines} speakers without a description, and there are {given} references: "
                "give one for each, or none.",
                param="scene",
            )

    def texts(self, request: SpeechRequest) -> list[str]:
        options: HiggsV2Options = request.options
        if options.chunk == "sentence":
            return turns_of(request.text, self.tag, MOST_CHARS)
        return chat.speakers_turns(request.text) if options.chunk == "speaker" else [request.text]

    def beginning(self, request: SpeechRequest, text: str | None) -> list[Piece]:
        references = request.voice.references
        scene = chat.scene_of(request, request.options.scene)
        in_scene = references if chat.open_lines(scene) else ()
        items = self._chat.beginning(
            chat.system_of(request),
            chat.scene_items(scene, [reference.audio for reference in in_scene]),
            () if in_scene else references,
        )
        return self._chat.pieces([*items, *(self._chat.turn(text) if text is not None else ())])

    def continuing(self, text: str, is_first: bool) -> list[Piece]:
        return self._chat.continuing(text, is_first)

    def repetition(self, request: SpeechRequest) -> RepetitionWindow:
        options: HiggsV2Options = request.options
        rows = self._window.rows if options.ras_window is None else options.ras_window
        return RepetitionWindow(rows, self._window.limit if options.ras_limit is None else options.ras_limit)


class HiggsV3Prepare(HiggsPrepare):
    continues = False

    def __init__(self, context: StageContext) -> None:
        folder, config = checkpoint_of(context), read_v3(context.config)
        tokens = tokenizer.ControlTokens(folder, config.body.vocab_size)
        super().__init__(config, tokenizer.read(folder, tokens.tags()))
        self._sections = HiggsSections(self._encode, tokens)

    def check(self, request: SpeechRequest) -> None:
        """Does nothing: the engine's own checks are enough for this model."""

    def texts(self, request: SpeechRequest) -> list[str]:
        options: HiggsV3Options = request.options
        return turns_of(request.text, self.tag, MOST_CHARS) if options.chunk == "sentence" else [request.text]

    def beginning(self, request: SpeechRequest, text: str | None) -> list[Piece]:
        reference = next(iter(request.voice.references), None)
        return [*self._sections.beginning(reference), *(self._sections.speech(text) if text is not None else ())]


def check_references(references: tuple[Reference, ...]) -> None:
    """Raises if the audio of a reference is too short or too long."""
    least, most = REFERENCE_S
    for reference in references:
        if not least <= reference.audio.duration_s <= most:
            found = f"{reference.audio.duration_s:.2f} s"
            raise BadAudio(f"a reference must have {least:g} to {most:g} s of audio, not {found}.", param="ref_audio")
