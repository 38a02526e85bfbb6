"""Several spellings in, one typed request out."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode.config import Deployment, resolve
from rhapsode.errors import InvalidRequest, UnknownModel, UnknownVoice
from rhapsode.models.registry import families
from rhapsode.serve.request.intake import Intake, Order, mode_of, name_of, references_of, text_of
from rhapsode.serve.request.names import OPENAI_VOICES, check_model, preset_for, served_id
from rhapsode.serve.request.references import References
from rhapsode.serve.request.schemas import Schemas
from rhapsode.types import Clip, ModelInfo, Sampling, Voice
from rhapsode.voices.store import VoiceStore

SPEC = families()[0]["qwen3-tts"]
SCHEMAS = Schemas(SPEC)
PRESETS = ("vivian", "Ryan", "aiden")
INFO = replace(SPEC.info(), voices=PRESETS)
CLIP = Clip(np.zeros((1, 2400), np.float32), 24_000)


def body(**fields):
    return SCHEMAS.speech.model_validate({"input": "Hello.", **fields})


@pytest.fixture
def store(tmp_path: Path) -> VoiceStore:
    return VoiceStore(tmp_path, 10)


@pytest.fixture
def read(store: VoiceStore):
    def read(info: ModelInfo = INFO, **fields) -> Order:
        deployment = Deployment(model="qwen3-tts")
        intake = Intake(info, deployment, SCHEMAS, store, References(deployment.server, store))
        return asyncio.run(intake.read(body(**fields)))

    return read


def test_nothing_is_filled_in(read) -> None:
    request = read().request
    assert (request.text, request.voice, request.sampling, request.options) == ("Hello.", Voice(), Sampling(), {})
    assert (request.speed, request.seed, request.max_frames, request.first_chunk_frames) == (1.0, None, None, None)


def test_everything_that_is_set_arrives(read) -> None:
    order = read(
        language="English",
        instructions="Softly.",
        speed=1.5,
        seed=7,
        temperature=0,
        top_k=3,
        max_new_tokens=99,
        initial_codec_chunk_frames=2,
        task_type="CustomVoice",
        non_streaming_mode=True,
        response_format="pcm",
        sample_rate=16_000,
        stream=False,
    )
    request = order.request
    assert (request.language, request.instructions, request.speed, request.seed) == ("English", "Softly.", 1.5, 7)
    assert request.sampling == Sampling(temperature=0, top_k=3)
    assert (request.max_frames, request.first_chunk_frames) == (99, 2)
    assert request.options == {"task_type": "CustomVoice", "non_streaming_mode": True}
    assert (order.delivery.format.name, order.delivery.mode, order.delivery.sample_rate) == ("pcm", "whole", 16_000)


def test_no_first_chunk_leaves_it_to_the_server(read) -> None:
    assert read(initial_codec_chunk_frames=0).request.first_chunk_frames is None


def test_a_chat_s_last_user_message_is_spoken_and_its_system_message_says_how() -> None:
    chat = [
        {"role": "system", "content": "Softly."},
        {"role": "user", "content": "No."},
        {"role": "user", "content": [{"type": "text", "text": "Yes."}]},
    ]
    assert text_of(SCHEMAS.speech.model_validate({"messages": chat})) == ("Yes.", "Softly.")


@pytest.mark.parametrize(
    "fields", [{}, {"input": "a", "text": "b"}, {"text": "a", "messages": [{"role": "user", "content": "b"}]}]
)
def test_there_is_exactly_one_text(fields: dict) -> None:
    with pytest.raises(InvalidRequest):
        text_of(SCHEMAS.speech.model_validate(fields))


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, "audio"),
        ({"stream": True}, "audio"),
        ({"stream_format": "audio"}, "audio"),
        ({"stream_format": "sse"}, "sse"),
        ({"stream": True, "stream_format": "sse"}, "sse"),
        ({"stream": False}, "whole"),
    ],
)
def test_it_streams_unless_told_not_to(fields: dict, mode: str) -> None:
    assert mode_of(body(**fields)) == mode


# --- voices ---


@pytest.mark.parametrize("voice", ["vivian", "Ryan", "ryan", "VIVIAN"])
def test_presets_are_found_in_any_case(read, voice: str) -> None:
    assert read(voice=voice).request.voice.name in PRESETS


def test_an_uploaded_voice_wins_over_an_openai_name_and_a_preset_over_both(read, store: VoiceStore) -> None:
    store.add("alloy", embedding=[1.0, 2.0], consent="yes")
    store.add("vivian", embedding=[3.0, 4.0], consent="yes")
    assert read(voice="alloy").request.voice.embedding == (1.0, 2.0)
    assert read(voice="vivian").request.voice == Voice(name="vivian")


@pytest.mark.parametrize("voice", ["default", "", None])
def test_no_voice_is_the_family_s_choice(read, voice: str | None) -> None:
    assert read(voice=voice).request.voice == Voice()


def test_an_unknown_voice_names_those_that_exist(read, store: VoiceStore) -> None:
    store.add("Ada", embedding=[1.0], consent="yes")
    with pytest.raises(UnknownVoice, match="there are: vivian, Ryan, aiden, Ada"):
        read(voice="nobody")


def test_where_the_presets_are_unknown_the_family_decides(read) -> None:
    unknown = replace(INFO, voices=())
    assert read(unknown, voice="vivian").request.voice == Voice(name="vivian")
    assert read(unknown, voice="alloy").request.voice == Voice()


def test_an_openai_name_beside_a_reference_means_nothing(read) -> None:
    assert read(voice="alloy", speaker_embedding=[1, 2]).request.voice == Voice(embedding=(1.0, 2.0))
    with pytest.raises(InvalidRequest, match="not both"):
        read(voice="vivian", speaker_embedding=[1, 2])


def test_aliases_are_stable_and_cover_every_name() -> None:
    chosen = {name: preset_for(name, PRESETS) for name in OPENAI_VOICES}
    assert set(chosen.values()) == set(PRESETS)
    assert chosen == {name: preset_for(name.upper(), PRESETS) for name in OPENAI_VOICES}
    assert preset_for("fable", ("one", "fable")) == "fable"
    assert preset_for("alloy", ()) is None
    assert preset_for("vivian", PRESETS) is None


def test_voice_and_speaker_agree_or_are_refused() -> None:
    assert name_of(body(voice="a", speaker="a")) == "a"
    with pytest.raises(InvalidRequest):
        name_of(body(voice="a", speaker="b"))


@pytest.mark.parametrize(
    "fields",
    [
        {"ref_audio": "A", "ref_text": "T"},
        {"ref_audio": ["A"], "ref_text": ["T"]},
        {"references": [{"audio": "A", "text": "T"}]},
        {"references": [{"audio_path": "A"}], "ref_text": "T"},
        {"references": [{"url": "A", "text": "T"}]},
    ],
)
def test_a_reference_is_one_audio_and_its_text(fields: dict) -> None:
    assert references_of(body(**fields)) == [("A", "T")]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"ref_audio": ["A", "B"]}, [("A", None), ("B", None)]),
        ({"ref_audio": ["A", "B"], "ref_text": ["T", "U"]}, [("A", "T"), ("B", "U")]),
        ({"ref_audio": "A", "references": [{"audio": "B"}]}, [("A", None), ("B", None)]),
        ({"references": [{"audio": "A", "text": "T"}, {"url": "B"}]}, [("A", "T"), ("B", None)]),
        ({"references": [{"audio": "A", "text": "T"}, {"url": "B"}], "ref_text": "U"}, [("A", "T"), ("B", "U")]),
    ],
)
def test_several_references_keep_their_order_and_their_texts(fields: dict, found: list) -> None:
    assert references_of(body(**fields)) == found


@pytest.mark.parametrize(
    "fields",
    [
        {"ref_text": "T"},
        {"ref_audio": ["A", "B"], "ref_text": "T"},
        {"ref_audio": "A", "ref_text": ["T", "U"]},
        {"references": [{"text": "T"}]},
        {"references": [{"audio": "A", "url": "A"}]},
    ],
)
def test_texts_and_references_that_do_not_belong_together_are_refused(fields: dict) -> None:
    with pytest.raises(InvalidRequest):
        references_of(body(**fields))


def test_several_references_reach_a_family_that_takes_them(read, store: VoiceStore) -> None:
    store.add("Ada", clip=CLIP, text="what she says", consent="yes")
    store.add("Ben", clip=CLIP, consent="yes")
    store.add("Numbers", embedding=[1.0], consent="yes")
    able = replace(INFO, can=replace(INFO.can, references=2))
    voice = read(able, references=[{"audio": "Ada"}, {"audio": "Ben", "text": "his words"}]).request.voice
    assert [reference.text for reference in voice.references] == ["what she says", "his words"]
    with pytest.raises(InvalidRequest, match="no reference among several"):
        read(able, references=[{"audio": "Ada"}, {"audio": "Numbers"}])
    with pytest.raises(InvalidRequest, match="takes 2 references, not 3"):
        read(able, ref_audio=["Ada", "Ben", "Ada"])
    with pytest.raises(InvalidRequest, match="takes one reference, not 2"):
        read(ref_audio=["http://127.0.0.1:1/a.wav", "http://127.0.0.1:1/b.wav"])


def test_a_recording_to_continue_needs_a_family_that_can(read) -> None:
    with pytest.raises(InvalidRequest, match="cannot continue recordings") as caught:
        read(prompt_audio="data:,", prompt_text="words")
    assert caught.value.param == "prompt_audio"
    with pytest.raises(InvalidRequest, match="needs 'prompt_audio'") as caught:
        read(prompt_text="words")
    assert caught.value.param == "prompt_text"


# --- models ---


def test_a_folder_is_served_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "my-voice").mkdir()
    deployment = resolve(env={}, flags={"model": str(tmp_path / "my-voice")})
    assert served_id(deployment) == "my-voice"
    for name in (None, "my-voice", str(tmp_path / "my-voice"), "qwen3-tts", "tts-1", "gpt-4o-mini-tts-2025-12-15"):
        check_model(name, deployment, INFO)
    with pytest.raises(UnknownModel, match="'my-voice' is"):
        check_model("gpt-7", deployment, INFO)
