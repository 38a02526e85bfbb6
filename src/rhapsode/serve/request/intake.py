"""Turns the body of a client, which may be spelt in several ways, into one typed request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rhapsode.audio.formats import FORMATS
from rhapsode.checking.dialogue import check_count, check_speakers, in_segment
from rhapsode.checking.request import check_embedding, check_length, check_speakable
from rhapsode.config import Deployment
from rhapsode.errors import InvalidRequest, UnknownVoice
from rhapsode.models.abilities import can_clone, unable
from rhapsode.serve.middleware.leniency import unknown_fields
from rhapsode.serve.request.effect import check_frames
from rhapsode.serve.request.names import DEFAULT_VOICE, OPENAI_VOICES, VoiceAliases, check_model, preset_for
from rhapsode.serve.request.references import References
from rhapsode.serve.request.schemas import Schemas, SegmentBody, SpeechBody, VoiceFields, VoiceRef
from rhapsode.serve.response.delivery import Delivery
from rhapsode.types import ModelInfo, Reference, Sampling, Segment, SpeechRequest, Voice
from rhapsode.voices.mix import is_mix, parse_mix, spell_mix
from rhapsode.voices.store import VoiceStore

MAX_INSTRUCTIONS_CHARS = 10_000

# Names of fields in a body, and in a `SpeechRequest`.
_REQUEST_FIELDS = {
    "language": "language",
    "instructions": "instructions",
    "speed": "speed",
    "loudness": "loudness",
    "volume": "volume",
    "seed": "seed",
    "max_new_tokens": "max_frames",
    "input_type": "input_type",
    "normalise": "normalise",
    "lexicon": "lexicon",
    "word_timestamps": "word_timestamps",
    "end_detection": "end_detection",
}


@dataclass(frozen=True)
class Order:
    """A request, and how its audio is delivered."""

    request: SpeechRequest
    delivery: Delivery
    voice_name: str | None = None
    """The voice as the client named it, for the audit log; a dialogue has the names of all its voices."""
    consent: str | None = None
    ignored: tuple[str, ...] = ()
    """Fields of the body that were left out."""


class Intake:
    """Reads bodies for one served model."""

    def __init__(
        self, info: ModelInfo, deployment: Deployment, schemas: Schemas, store: VoiceStore, references: References
    ) -> None:
        self._info = info
        self._deployment = deployment
        self._schemas = schemas
        self._store = store
        self._references = references
        self.aliases = VoiceAliases(deployment.server, info)

    async def read(self, body: SpeechBody) -> Order:
        text, system = text_of(body)
        check_length(len(text), self._deployment.limits)
        if system and len(system) > MAX_INSTRUCTIONS_CHARS:
            raise InvalidRequest(f"system messages have at most {MAX_INSTRUCTIONS_CHARS} characters.", param="messages")
        if not text.strip() or self._deployment.server.unspeakable == "refuse":
            check_speakable(text)
        order = await self.read_voice(body, "mp3", mode_of(body), text)
        if body.segments:
            order = await self._read_segments(body.segments, order)
        if not system or order.request.instructions or body.instructions:
            return order
        if self._ignores_instructions("messages"):
            return replace(order, ignored=("messages.system",))
        return replace(order, request=replace(order.request, instructions=system))

    async def _read_segments(self, segments: Sequence[SegmentBody], order: Order) -> Order:
        """Returns the order with the segments of a dialogue. Segments that name the same voice share it."""
        check_count(len(segments), self._deployment.limits)
        check_speakers(len({voice_name(segment.voice) for segment in segments}))  # before any voice is loaded
        voices: dict[str | None, Voice] = {None: order.request.voice}
        spoken = []
        for index, segment in enumerate(segments):
            name = voice_name(segment.voice)
            try:
                voices[name] = voices.get(name) or await self._named(name or "")
            except InvalidRequest as error:
                raise in_segment(error, index) from None
            spoken.append(Segment(segment.input, voices[name], segment.pause_s))
        names = [name for name in voices if name is not None]
        voice_names = ", ".join([*([order.voice_name] if order.voice_name else []), *names])
        request = replace(order.request, segments=tuple(spoken))
        return replace(order, request=request, voice_name=voice_names or None)

    async def read_voice(
        self, body: VoiceFields, default_format: str, mode: Literal["whole", "audio", "sse"], text: str = ""
    ) -> Order:
        """Returns the order of all fields but the text. `text` is given if it is known already."""
        check_model(body.model, self._deployment, self._info)
        delivery = Delivery(FORMATS[body.response_format or default_format], mode, body.sample_rate, body.channels)
        delivery.check()
        self._check_consent(body)
        given = chosen(body)
        check_frames(given, self._info)
        ignored = ("instructions",) if body.instructions and self._ignores_instructions("instructions") else ()
        for name in ignored:
            del given[name]
        request = SpeechRequest(
            text,
            await self._voice(body),
            sampling=Sampling(**{name: given[name] for name in Sampling.__dataclass_fields__ if name in given}),
            options={name: given[name] for name in self._schemas.option_names if name in given},
            first_chunk_frames=given.get("initial_codec_chunk_frames") or None,
            real_time=mode != "whole",
            **{here: given[there] for there, here in _REQUEST_FIELDS.items() if there in given},
        )
        return Order(request, delivery, name_of(body), body.consent or None, ignored)

    def _check_consent(self, body: VoiceFields) -> None:
        cloned = body.ref_audio or body.references or body.prompt_audio
        if self._deployment.server.require_consent and cloned and not (body.consent or "").strip():
            raise InvalidRequest("reference audio needs 'consent': who agreed, and when.", param="consent")

    def _ignores_instructions(self, param: str) -> bool:
        """Returns whether the checkpoint takes no instructions, so that they are left out; a strict server refuses
        them before anything is fetched."""
        if self._info.can.instructions:
            return False
        if unknown_fields(self._deployment.server) == "strict":
            error = unable(self._info, "instructions", param)
            hint = "Instructions are an error here because of 'server.unknown_fields: strict'."
            raise InvalidRequest(f"{error.message} {hint}", param=param)
        return True

    # --- voices ---

    async def _voice(self, body: VoiceFields) -> Voice:
        continued, voice = await self._continued(body), await self._sound(body)
        return voice if continued is None else replace(voice, continued=continued)

    async def _continued(self, body: VoiceFields) -> Reference | None:
        """Returns the recording that the utterance continues, with its transcript."""
        if body.prompt_audio is None:
            if body.prompt_text:
                raise InvalidRequest("'prompt_text' needs 'prompt_audio'.", param="prompt_text")
            return None
        if not self._info.can.continuation:  # before anything is fetched
            raise unable(self._info, "continuation", "prompt_audio")
        try:
            voice = await self._references.voice([(body.prompt_audio, body.prompt_text)])
        except InvalidRequest as error:
            raise type(error)(error.message, param="prompt_audio") from None
        if not voice.references:
            raise InvalidRequest("this voice has no recording that could be continued.", param="prompt_audio")
        return voice.references[0]

    async def _sound(self, body: VoiceFields) -> Voice:
        """Returns the voice that the utterance should sound like: a named voice, references or an embedding."""
        name = name_of(body)
        references = references_of(body)
        if not references and body.speaker_embedding is None:
            return Voice() if name is None else await self._named(name)
        embedding = None if body.speaker_embedding is None else tuple(map(float, body.speaker_embedding))
        if references and embedding is not None and not self._info.can.reference_embedding:
            raise InvalidRequest("give reference audio or a speaker embedding, not both.", param="speaker_embedding")
        # OpenAI's SDK always sends `voice`, so one of OpenAI's names beside a reference is ignored.
        if name is not None and name.lower() not in OPENAI_VOICES:
            raise InvalidRequest(f"give a reference or the voice '{name}', not both.", param="voice")
        if not references:
            return Voice(embedding=embedding)
        self._check_references(len(references), body)
        voice = await self._references.voice(references)
        check_embedding(voice.embedding, self._info, "ref_audio")  # of an uploaded voice
        return voice if embedding is None else replace(voice, embedding=embedding)

    def _check_references(self, count: int, body: VoiceFields) -> None:
        """Raises if the model cannot clone from so many references, before any of them is fetched."""
        can = self._info.can
        if not can_clone(self._info, chosen(body)):
            raise unable(self._info, "clone", "ref_audio")
        if count > can.references:
            most = "one reference" if can.references == 1 else f"{can.references} references"
            raise InvalidRequest(f"{self._info.title} takes {most}, not {count}.", param="ref_audio")

    async def _named(self, name: str) -> Voice:
        """Returns the voice of a name or alias: a preset, else an uploaded voice, else that of an OpenAI name."""
        presets, name = self._info.presets, self.aliases.resolve(name)
        if name in presets:
            return Voice(name=name)
        stored = await asyncio.to_thread(self._store.load, name)
        if stored is not None:
            check_embedding(stored.embedding, self._info, "voice")
            return stored
        by_case = {preset.lower(): preset for preset in presets}
        if found := by_case.get(name.lower()) or preset_for(name, self._info.voices):
            return Voice(name=found)
        if name.lower() in OPENAI_VOICES:
            return Voice()  # a model without presets uses its default voice
        if self._info.can.presets and not presets:
            return Voice(name=name)  # the names of the presets are unknown: the family checks them
        if is_mix(name):
            return await self._mixed(name)
        uploaded = [voice.name for voice in await asyncio.to_thread(self._store.list)]
        known = ", ".join([*presets, *uploaded[:32]]) or "none"
        raise UnknownVoice(f"there is no voice '{name[:64]}' here; there are: {known}.", param="voice")

    async def _mixed(self, mix: str) -> Voice:
        """Returns the voice of a mix; each of its voices may be named as if it were alone."""
        parts = parse_mix(mix)
        if len(parts) > 1 and not self._info.can.mixes:
            raise unable(self._info, "mixes", "voice")
        weights: dict[str, float] = {}
        for name, weight in parts.items():
            voice = await self._named(name)
            if len(parts) == 1:
                return voice
            if voice.name is None:
                raise InvalidRequest(f"'{name[:64]}' is no preset: only presets can be mixed.", param="voice")
            weights[voice.name] = weights.get(voice.name, 0.0) + weight
        return Voice(name=spell_mix(weights))


def chosen(body: VoiceFields) -> dict[str, Any]:
    """Returns the fields that the user set to something: neither defaults nor nulls."""
    fields = vars(body)
    return {name: value for name in body.model_fields_set if (value := fields.get(name)) is not None}


def text_of(body: SpeechBody) -> tuple[str, str | None]:
    """Returns the text to speak and, from the system messages of a chat, the instructions how to speak it."""
    ways = {"input": body.input, "text": body.text, "messages": body.messages, "segments": body.segments}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        problem = f"give one of them, not {' and '.join(given)}" if given else "the text is missing: give 'input'"
        raise InvalidRequest(f"{problem}.", param=given[1] if given else "input")
    if body.segments is not None:
        return "\n".join(segment.input for segment in body.segments), None
    if body.messages is None:
        return body.input or body.text or "", None
    spoken = [message.text() for message in body.messages if message.role == "user"]
    if not spoken:
        raise InvalidRequest("no message is the user's: there is nothing to say.", param="messages")
    system = [message.text() for message in body.messages if message.role in ("system", "developer")]
    return spoken[-1], "\n".join(system) or None


def mode_of(body: SpeechBody) -> Literal["whole", "audio", "sse"]:
    """Returns how the audio is sent: streamed, as OpenAI does, unless `stream` is false."""
    if body.stream is False:
        if body.stream_format is not None:
            raise InvalidRequest(f"'stream_format' is {body.stream_format}, but 'stream' is false.", param="stream")
        return "whole"
    return body.stream_format or "audio"


def name_of(body: VoiceFields) -> str | None:
    voice = body.voice.id if isinstance(body.voice, VoiceRef) else body.voice
    if voice and body.speaker and voice != body.speaker:
        raise InvalidRequest("'voice' and 'speaker' mean the same: give one of them.", param="speaker")
    return voice_name(body.voice or body.speaker)


def voice_name(voice: str | VoiceRef | None) -> str | None:
    """Returns the name of a voice; `None` is the default voice."""
    name = voice.id if isinstance(voice, VoiceRef) else voice
    return None if not name or name.lower() == DEFAULT_VOICE else name


def references_of(body: VoiceFields) -> list[tuple[str, str | None]]:
    """Returns the audio and the transcript of every reference, from any of the fields that may hold them.

    Entries of `ref_text` belong, in their order, to the references that come without a text of their own.
    """
    audios = [body.ref_audio] if isinstance(body.ref_audio, str) else list(body.ref_audio or ())
    texts = [body.ref_text] if isinstance(body.ref_text, str) else list(body.ref_text or ())
    found: list[tuple[str, str | None]] = [(audio, None) for audio in audios]
    for reference in body.references or ():
        ways = [way for way in (reference.audio, reference.audio_path, reference.url) if way]
        if len(ways) != 1:
            raise InvalidRequest("a reference needs one of 'audio', 'audio_path' and 'url'.", param="references")
        found.append((ways[0], reference.text or None))
    if texts and not found:
        raise InvalidRequest("a reference text needs reference audio.", param="ref_text")
    without = sum(text is None for _, text in found)
    if texts and len(texts) != without:
        raise InvalidRequest(
            f"'ref_text' has {len(texts)} texts for {without} references without one: give one each.", param="ref_text"
        )
    rest = iter(texts)
    return [(audio, (text or next(rest, None)) or None) for audio, text in found]
