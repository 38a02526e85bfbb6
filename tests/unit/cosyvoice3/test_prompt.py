"""Requests to prompts: every mode, long texts, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode.errors import InvalidRequest, UnknownOption
from rhapsode.models.cosyvoice3.encode import with_short_first_chunk
from rhapsode.models.cosyvoice3.prompt import CosyVoice
from rhapsode.models.registry import find
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny.cosyvoice3 import CHUNK, CODES, EMBEDDING, MELS, reference_audio, reference_tokens, speaker_embedding
from unit.cosyvoice3.asked import Family, rows_of

TEXT = "Hello there. One two three four."
CLIP = Clip(reference_audio(24_000)[None], 24_000)
TOKENS = reference_tokens(24).tolist()
GIVEN = {"options": {"reference_tokens": TOKENS}}
EMBEDDED = tuple(speaker_embedding(1).tolist())


@pytest.fixture(scope="module")
def stages(tiny: Path) -> Family:
    return Family.open(tiny)


def cloned(text: str | None = None, **fields) -> Voice:
    return Voice(**{"references": (Reference(CLIP, text),), "embedding": EMBEDDED, **fields})


def test_what_a_checkpoint_can_do(tiny: Path) -> None:
    info = find(str(tiny)).info()
    assert info.family == "cosyvoice3"
    assert info.voices == ("ada", "bob")
    assert info.embedding_size == EMBEDDING
    assert {"embedding", "presets", "text_stream", "reference_embedding"} <= set(info.can.names())


def test_a_transcript_puts_the_references_speech_into_the_prompt(stages: Family) -> None:
    start = stages.talker.net.speech_start
    zero_shot, cross, instructed = (
        stages.prompt(SpeechRequest(TEXT, voice, **{**GIVEN, **wishes}))
        for voice, wishes in (
            (cloned("the ref"), {}),
            (cloned(), {}),
            (cloned("the ref"), {"instructions": "Good morning."}),
        )
    )
    speech = [[row - start for row in rows_of(prompt) if row >= start] for prompt in (zero_shot, cross, instructed)]
    assert speech == [[CODES, CODES + 2, *TOKENS], [CODES, CODES + 2], [CODES, CODES + 2]]
    for prompt in (zero_shot, cross, instructed):
        assert prompt.voice is not None
        assert prompt.voice.mel.shape == (2 * len(prompt.voice.tokens), MELS)
        np.testing.assert_allclose(prompt.voice.embedding, EMBEDDED, rtol=1e-6)
    as_if_without = stages.prompt(
        SpeechRequest(TEXT, cloned("the ref"), options={"reference_tokens": TOKENS, "cross_lingual": True})
    )
    assert rows_of(as_if_without) == rows_of(cross)


def test_a_speaker_vector_alone_is_a_voice(stages: Family) -> None:
    preset, given = (
        stages.prompt(SpeechRequest(TEXT, voice))
        for voice in (Voice(name="ada"), Voice(embedding=tuple(speaker_embedding(0).tolist())))
    )
    assert rows_of(preset) == rows_of(given)
    assert preset.voice is not None
    assert given.voice is not None
    assert len(preset.voice.tokens) == 0
    np.testing.assert_allclose(preset.voice.embedding, given.voice.embedding, rtol=1e-6)
    assert rows_of(stages.prompt(SpeechRequest(TEXT))) == rows_of(preset)  # the first preset is the usual voice


def test_the_system_line_that_upstreams_users_write_is_not_spoken(stages: Family) -> None:
    plain = stages.prompt(SpeechRequest(TEXT))
    written = stages.prompt(SpeechRequest(f"You are a helpful assistant.<|endofprompt|>{TEXT}"))
    assert rows_of(plain) == rows_of(written)
    inside = rows_of(stages.prompt(SpeechRequest(f"Hello <|endofprompt|> {TEXT}")))
    assert inside.count(stages.prepare._encode.end_of_prompt) == 1


def test_a_text_longer_than_the_flows_context_is_spoken_in_parts(tiny: Path) -> None:
    stages = Family.open(tiny, flow_context_s=10.0)
    text = " ".join(["One two three four five."] * 12)
    prompts = list(stages.prompts(SpeechRequest(text, Voice(name="bob"))))
    assert len(prompts) > 2
    assert [prompt.new_segment for prompt in prompts] == [False] + [True] * (len(prompts) - 1)
    assert not any(prompt.continues for prompt in prompts)
    head = rows_of(stages.prompt(SpeechRequest("Yes", Voice(name="bob"))))[:15]
    assert all(rows_of(prompt)[:15] == head for prompt in prompts)
    assert all(prompt.max_frames <= 250 for prompt in prompts)
    in_turns = list(stages.prompts(SpeechRequest(text, Voice(name="bob"), options={"interleave": True})))
    assert sum(prompt.new_segment for prompt in in_turns) == len(prompts) - 1


def test_a_short_first_chunk_costs_the_beginning_of_the_reference(stages: Family) -> None:
    config = stages.talker._config
    for length in range(3 * CHUNK, 5 * CHUNK):
        tokens = np.arange(length)
        voice = CosyVoice(tokens, np.repeat(tokens, 2)[:, None].astype(np.float32), np.zeros(EMBEDDING, np.float32))
        cut = with_short_first_chunk(voice, config, 3)
        assert -len(cut.tokens) % CHUNK == 3
        assert length - len(cut.tokens) < CHUNK
        assert cut.tokens[-1] == length - 1
        np.testing.assert_array_equal(cut.mel[::2, 0], cut.tokens)
    short = replace(voice, tokens=tokens[:5], mel=voice.mel[:10])
    assert with_short_first_chunk(short, config, 3) is short
    assert with_short_first_chunk(voice, config, 0) is voice


@pytest.mark.parametrize(
    ("voice", "wishes", "words"),
    [
        (cloned("  "), GIVEN, "transcript is empty"),
        (cloned(" ..."), GIVEN, "no letter"),
        (cloned(), {}, "speech_tokenizer_v3.onnx.*reference_tokens"),
        (cloned(embedding=None), GIVEN, "campplus.onnx.*speaker_embedding"),
        (cloned(), {"options": {"reference_tokens": [CODES]}}, f"from 0 to {CODES - 1}"),
        (cloned(), {"options": {"reference_tokens": []}}, "1 to 750"),
        (Voice(name="ada"), GIVEN, "need the recording"),
        (Voice(embedding=EMBEDDED), {"instructions": "   "}, "instructions are empty"),
    ],
)
def test_what_cannot_be_served_is_refused(stages: Family, voice: Voice, wishes: dict, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        stages.prompt(SpeechRequest(TEXT, voice, **wishes))


def test_references_have_limits(stages: Family) -> None:
    for samples, words in ((31 * 24_000, "at most 30 s"), (2000, "shorter than 0.1 s")):
        clip = Clip(np.zeros((1, samples), np.float32), 24_000)
        with pytest.raises(InvalidRequest, match=words):
            stages.prompt(SpeechRequest(TEXT, cloned(references=(Reference(clip),)), **GIVEN))


def test_options_are_strict(stages: Family) -> None:
    with pytest.raises(UnknownOption):
        stages.prompt(SpeechRequest(TEXT, options={"crosslingual": True}))
    with pytest.raises(InvalidRequest, match="reference_tokens"):
        stages.prompt(SpeechRequest(TEXT, cloned(), options={"reference_tokens": "12"}))
