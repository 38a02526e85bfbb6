"""Prompts are upstream's, position by position; what cannot be asked for is refused in words that help."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rhapsode.device.pages import page_keys
from rhapsode.errors import BadAudio, CheckpointError, InvalidRequest, TextTooLong, UnknownVoice
from rhapsode.models.base import StageContext
from rhapsode.models.qwen3_tts.config import read
from rhapsode.models.qwen3_tts.encode import interpolate
from rhapsode.models.qwen3_tts.prepare import FRAMES_PER_TOKEN, SPARE_FRAMES, QwenPrepare
from rhapsode.models.qwen3_tts.prompt import NONE, SPEAKER
from rhapsode.models.qwen3_tts.spec import SPEC
from rhapsode.types import Clip, SpeechRequest, Voice
from tiny.qwen3_tts import HIDDEN, Tiny, config, reference_audio
from unit.qwen3_tts.asked import CASES, SINGLES, Family, golden, request

Families = Callable[[str], Family]
CUSTOM, DESIGN, BASE = "custom_voice_proj", "voice_design_proj", "base_proj"
CLIP = Clip(reference_audio(30_000)[None], 24_000)
EMBEDDING = tuple(np.linspace(-1, 1, HIDDEN).tolist())


@pytest.mark.parametrize("name", [name for name in SINGLES if "prompt" in golden(name)])
def test_every_position_is_upstreams(family: Families, name: str) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    prompt, net = parts.prompt(request(case)), parts.talker.net
    speaker = np.zeros(HIDDEN, np.float32) if prompt.speaker is None else prompt.speaker
    with torch.inference_mode():
        filled = parts.talker.embed(torch.from_numpy(prompt.content)[None], torch.from_numpy(speaker)[None])[0]
        pad = net.text_table[parts.talker._config.text.tts_pad_token_id]
        text = torch.cat([net.text(torch.tensor(prompt.text, dtype=torch.int64)), pad[None]])
        last = net.codec(torch.from_numpy(prompt.last)) + text[0]
    assert prompt.length == len(prompt.content) == len(wanted["prompt"]) - 1
    np.testing.assert_allclose(filled, wanted["prompt"][:-1], atol=1e-5)
    np.testing.assert_allclose(last, wanted["prompt"][-1], atol=1e-5)
    trailing = wanted["trailing"]
    fed = [text[min(i, len(text) - 1)].numpy() for i in range(1, len(trailing) + 3)]
    np.testing.assert_allclose(fed[: len(trailing)], trailing, atol=1e-5)
    np.testing.assert_allclose(fed[len(trailing) :], pad.expand(2, -1), atol=1e-5)


def test_prompts_of_requests_that_came_together_are_those_of_each_alone(family: Families) -> None:
    parts, texts = family(CUSTOM), ["Hello there.", "Good morning.", "Hello there."]
    requests = [SpeechRequest(text) for text in texts] + [SpeechRequest("Wait", text_open=True)]
    alone = [parts.prompt(each) for each in requests]
    parts.prepare.look_ahead(requests)
    for prompt, each in zip(alone, requests, strict=True):
        again = parts.prompt(each)
        np.testing.assert_array_equal(again.content, prompt.content)
        assert again.text == prompt.text


# --- voices ---


def ask(family: Families, which: str, text: str = "Hello there.", **wishes: Any) -> Any:
    return family(which).prompt(SpeechRequest(text, **wishes))


def test_a_preset_is_found_in_any_spelling_and_the_first_is_the_default(family: Families) -> None:
    named = ask(family, CUSTOM, voice=Voice(name="AIDEN"))
    assert np.array_equal(named.content, ask(family, CUSTOM).content)
    assert not np.array_equal(named.content, ask(family, CUSTOM, voice=Voice(name="dylan")).content)


def test_an_unknown_preset_is_answered_with_the_nearest(family: Families) -> None:
    with pytest.raises(UnknownVoice, match="did you mean 'aiden'"):
        ask(family, CUSTOM, voice=Voice(name="aidan"))


@pytest.mark.parametrize(
    ("which", "wishes", "says"),
    [
        (CUSTOM, {"voice": Voice.cloned(CLIP)}, "CustomVoice cannot clone voices"),
        (CUSTOM, {"voice": Voice(embedding=EMBEDDING)}, "cannot take a speaker embedding"),
        (CUSTOM, {"voice": Voice(description="old")}, "cannot design a voice"),
        (DESIGN, {"voice": Voice(name="aiden")}, "VoiceDesign has no voices to choose by name"),
        (BASE, {}, "needs a reference or a speaker embedding"),
        (BASE, {"voice": Voice(name="aiden")}, "Base has no voices to choose by name"),
        (BASE, {"voice": Voice.cloned(CLIP), "instructions": "calm"}, "cannot take instructions"),
        (CUSTOM, {"options": {"task_type": "Base"}}, "is a CustomVoice model, not a Base one"),
        (CUSTOM, {"language": "klingon"}, "'klingon' is no language"),
        (CUSTOM, {"language": "sichuan_dialect"}, "no language"),
        (CUSTOM, {"text_open": True, "options": {"non_streaming_mode": True}}, "non_streaming_mode"),
        (CUSTOM, {"options": {"subtalker_top_p": 0.0}}, "subtalker_top_p"),
        (CUSTOM, {"options": {"subtalker_top_k": -1}}, "subtalker_top_k"),
        (CUSTOM, {"options": {"subtalker_temperature": -1.0}}, "subtalker_temperature"),
    ],
)
def test_what_a_checkpoint_cannot_do_is_refused(
    family: Families, which: str, wishes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        ask(family, which, **wishes)


@pytest.mark.parametrize("embedding", [EMBEDDING[:-1], (*EMBEDDING, 0.0), (*EMBEDDING[:-1], float("nan"))])
def test_a_speaker_embedding_that_does_not_fit_is_told_the_right_length(family: Families, embedding: tuple) -> None:
    with pytest.raises(InvalidRequest, match=f"has {HIDDEN} finite numbers"):
        ask(family, BASE, voice=Voice(embedding=embedding))


def test_a_ready_made_embedding_is_the_voice_of_the_reference_it_came_from(family: Families) -> None:
    made = ask(family, BASE, voice=Voice.cloned(CLIP))
    assert made.speaker.shape == (HIDDEN,)
    again = ask(family, BASE, voice=Voice(embedding=tuple(made.speaker.tolist())))
    assert np.array_equal(again.content, made.content)
    assert np.array_equal(again.speaker, made.speaker)


def test_a_reference_with_its_text_goes_into_the_context_unless_told_otherwise(family: Families) -> None:
    voice = Voice.cloned(CLIP, "the ref")
    inside = ask(family, BASE, voice=voice)
    assert inside.reference_codes.shape == (16, 16)
    outside = ask(family, BASE, voice=voice, options={"x_vector_only_mode": True})
    assert outside.reference_codes is None
    assert np.array_equal(outside.content, ask(family, BASE, voice=Voice.cloned(CLIP)).content)


def test_a_checkpoint_may_clone_from_the_speaker_vector_alone_unless_told_otherwise(
    family: Families, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoint(BASE), tmp_path / "vectors")
    (folder / "generation_config.json").write_text(json.dumps({"x_vector_only_mode": True}))
    declared = Family.open(folder)
    asked = SpeechRequest("Hello there.", Voice.cloned(CLIP, "the ref"))
    assert declared.prompt(asked).reference_codes is None
    codes = declared.prompt(replace(asked, options={"x_vector_only_mode": False})).reference_codes
    assert np.array_equal(codes, family(BASE).prompt(asked).reference_codes)


def test_a_stereo_reference_at_another_rate_is_mixed_and_resampled(family: Families) -> None:
    mono = reference_audio(48_000)[::2]
    twice = ask(family, BASE, voice=Voice.cloned(Clip(np.stack([mono, mono]), 12_000)))
    once = ask(family, BASE, voice=Voice.cloned(Clip(mono[None], 12_000)))
    np.testing.assert_allclose(twice.speaker, once.speaker, atol=1e-5)


def test_a_reference_too_short_to_hear_anything_in_is_refused(family: Families) -> None:
    with pytest.raises(BadAudio):
        ask(family, BASE, voice=Voice.cloned(Clip(np.zeros((1, 100), np.float32), 24_000)))


def test_between_two_voices_there_are_others() -> None:
    first, second = np.zeros(4, np.float32), np.ones(4, np.float32)
    assert interpolate(first, second, 0.25).tolist() == [0.25] * 4
    assert np.array_equal(interpolate(first, second, 1.0), second)
    with pytest.raises(InvalidRequest, match="4 and 3"):
        interpolate(first, second[:3], 0.5)
    with pytest.raises(InvalidRequest, match="between 0 and 1"):
        interpolate(first, second, 1.5)


# --- languages ---


def test_codes_names_and_any_case_mean_the_same_language(family: Families) -> None:
    contents = [ask(family, CUSTOM, language=name).content for name in ("en", "English", "ENGLISH", "EN")]
    assert all(np.array_equal(contents[0], other) for other in contents[1:])
    assert not np.array_equal(contents[0], ask(family, CUSTOM, language="de").content)
    assert np.array_equal(ask(family, CUSTOM, language="auto").content, ask(family, CUSTOM).content)


# --- limits ---


def test_longer_texts_may_take_longer_up_to_the_checkpoints_own_limit(family: Families) -> None:
    assert ask(family, CUSTOM, "abc").max_frames == SPARE_FRAMES + 3 * FRAMES_PER_TOKEN
    assert ask(family, CUSTOM, "a" * 5000).max_frames == 8191
    assert ask(family, CUSTOM, "abc", text_open=True).max_frames == 8191


def test_a_text_of_more_tokens_than_frames_is_refused(family: Families) -> None:
    with pytest.raises(TextTooLong, match="8191 frames"):
        ask(family, CUSTOM, "a" * 9000)


def test_open_text_beside_a_long_reference_must_begin_with_enough_of_it(family: Families) -> None:
    voice = Voice.cloned(CLIP, "some")  # 16 frames, 4 tokens
    with pytest.raises(InvalidRequest, match="first 12 tokens"):
        ask(family, BASE, "Hello ", voice=voice, text_open=True)
    prompt = ask(family, BASE, "Hello there, you all and more ", voice=voice, text_open=True)
    assert prompt.feed.steps() == len(prompt.text)


# --- sharing ---


def test_prompts_share_what_is_equal_and_nothing_that_only_looks_equal(family: Families) -> None:
    def keys(prompt: Any) -> list[bytes]:
        return page_keys(prompt.content, 4, *prompt.brief)

    one = ask(family, BASE, "Same words here", voice=Voice(embedding=EMBEDDING))
    other = ask(family, BASE, "Same words here", voice=Voice(embedding=EMBEDDING[::-1]))
    assert keys(one) == keys(ask(family, BASE, "Same words here", voice=Voice(embedding=EMBEDDING)))
    assert keys(one)[0] == keys(other)[0]  # role and tags come before the speaker
    assert keys(one)[-1] != keys(other)[-1]
    told = {"options": {"non_streaming_mode": True}}
    assert (
        keys(ask(family, CUSTOM, "Same start, one end", **told))[2]
        == keys(ask(family, CUSTOM, "Same start!", **told))[2]
    )


def test_what_prefix_sharing_leaves_out_is_the_same_in_every_prompt(family: Families) -> None:
    told = {"options": {"non_streaming_mode": True}}
    prompts = [
        ask(family, CUSTOM, instructions="Whisper."),
        ask(family, BASE, voice=Voice(embedding=EMBEDDING), language="en"),
        ask(family, BASE, voice=Voice.cloned(CLIP, "some"), **told),
    ]
    for prompt in prompts:
        columns, brief = prompt.brief
        assert 0 < brief <= prompt.length
        assert (prompt.content[:brief, columns:SPEAKER] == NONE).all()
        assert not prompt.content[:brief, SPEAKER].any()
    assert prompts[0].brief[1] == prompts[0].length
    assert prompts[1].content[prompts[1].brief[1], SPEAKER]


# --- files ---


def test_without_a_checkpoint_there_is_no_model() -> None:
    with pytest.raises(CheckpointError, match="needs a checkpoint"):
        QwenPrepare(StageContext(SPEC, None, {}, "cpu", "float32"))


IDS = {f"<{name}>": i for i, name in enumerate(("|endoftext|", "|im_start|", "|im_end|", "tts_pad", "tts_text_bos"))}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("talker_config",), None, "'talker_config' is missing from config.json"),
        (("talker_config", "hidden_size"), None, "'hidden_size' is missing from talker_config"),
        (("talker_config", "hidden_size"), "wide", "must be a int, not 'wide'"),
        (("talker_config", "code_predictor_config", "vocab_size"), None, "code_predictor_config"),
        (("talker_config", "use_sliding_window"), True, "sliding window"),
        (("tts_model_type",), "opera", "'opera'; known: base"),
        (("speaker_encoder_config", "enc_dim"), 7, "'enc_dim' is 7"),
    ],
)
def test_a_config_that_does_not_fit_says_what_is_wrong(path: tuple[str, ...], value: Any, says: str) -> None:
    made = config(Tiny(), IDS | {"<tts_text_eod>": 5})
    read(made, None)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(CheckpointError, match=says):
        read(made, None)


def test_what_a_config_says_beyond_the_known_is_ignored() -> None:
    made = config(Tiny(), IDS | {"<tts_text_eod>": 5})
    assert read(made | {"surprise": 1}, None) == read(made, None)
    assert read(made, None).generation.temperature == 0.9
    assert replace(read(made, None), speaker_width=1) != read(made, None)
