"""Prompts are upstream's, one preset's prefix is shared by content, and what cannot be served is refused clearly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rhapsode.errors import BadAudio, CheckpointError, InvalidRequest, TextTooLong, UnknownVoice
from rhapsode.models.voxtral_tts.prompt import CODES, FINGERPRINT, ID, NONE, ROW, VoxtralPrompt
from rhapsode.types import Clip, SpeechRequest, Voice
from tiny.voxtral_tts import DIM, VOICES, Tiny, write, write_voices
from unit.voxtral_tts.asked import CASES, CLIP, Family, golden

AUDIO = 24


def ids(prompt: VoxtralPrompt) -> list[int]:
    """The token of each position, the last included; a reference's frame is a placeholder."""
    return [AUDIO if token == NONE else token for token in [*prompt.content[:, ID].tolist(), prompt.last]]


def ask(text: str = "Hello there.", voice: str | Voice | None = "fr_male", **wishes: Any) -> SpeechRequest:
    return SpeechRequest(text, voice if isinstance(voice, Voice) else Voice(name=voice), **wishes)


@pytest.mark.parametrize("name", CASES)
def test_tokens_are_upstreams(family: Family, name: str) -> None:
    assert ids(family.golden_prompt(name)) == golden(name)["prompt_ids"].tolist()


def test_a_preset_has_as_many_positions_as_the_tokenizer_says(tiny: Family) -> None:
    for name, count in VOICES.items():
        content = tiny.prompt(ask(voice=name)).content
        assert (content[:, ID] == AUDIO).sum() == count
    short = tiny.prompt(ask(voice="hi_male")).content  # two rows for three positions
    assert (short[short[:, ID] == AUDIO][:, ROW] >= 0).tolist() == [True, True, False]


def test_positions_have_the_rows_of_their_voice(tiny: Family, tiny_folder: Path) -> None:
    rows = torch.load(tiny_folder / "voice_embedding" / "hi_male.pt", weights_only=True).float()
    content = torch.from_numpy(tiny.prompt(ask(voice="hi_male")).content)[None]
    embedded = tiny.talker.embed(content)[0]
    assert torch.equal(embedded[2:4], rows)
    tokens = tiny.talker.net.text(content[0, :, ID])
    assert torch.equal(embedded[4:], tokens[4:])  # the third placeholder keeps its token's embedding
    assert torch.equal(embedded[:2], tokens[:2])


def test_one_preset_is_one_prefix_and_another_is_none(tiny: Family) -> None:
    one, same = (tiny.prompt(ask(text)).content for text in ("Hello there.", "Good morning."))
    shared = 2 + VOICES["fr_male"] + 1
    assert np.array_equal(one[:shared], same[:shared])
    other = tiny.prompt(ask(voice="cheerful_female")).content
    assert not (one[2:5] == other[2:5]).all(axis=1).any()


def test_a_prefix_is_of_the_voice_s_content_and_not_of_its_name(tmp_path: Path) -> None:
    contents = []
    for seed in (0, 1):
        write(tmp_path / str(seed), Tiny(seed=seed))
        contents.append(Family.open(tmp_path / str(seed)).prompt(ask()).content)
    voice = slice(2, 2 + VOICES["fr_male"])
    assert np.array_equal(contents[0][voice, ROW], contents[1][voice, ROW])
    assert (contents[0][voice, FINGERPRINT] != contents[1][voice, FINGERPRINT]).all()


def test_a_reference_is_its_codes_and_an_end(family: Family) -> None:
    content = family.prompt(ask(voice=Voice.cloned(CLIP))).content
    frames = content[content[:, CODES] != NONE][:, CODES:]
    assert len(frames) == -(-700 // 1920) + 1
    assert (frames[-1] == [1, *[0] * 9]).all()
    assert frames[:-1].min() >= 2


def test_without_a_voice_it_is_the_usual_one(tiny: Family, family: Family) -> None:
    assert np.array_equal(tiny.prompt(ask(voice=None)).content, tiny.prompt(ask(voice="cheerful_female")).content)
    first = family.prompt(ask(voice="casual_female"))
    assert np.array_equal(family.prompt(ask(voice=None)).content, first.content)  # it has no cheerful one


def test_a_name_may_be_spelt_in_any_case_and_a_language_changes_nothing(tiny: Family) -> None:
    usual = tiny.prompt(ask()).content
    assert np.array_equal(tiny.prompt(ask(voice="FR_male")).content, usual)
    assert np.array_equal(tiny.prompt(ask(language="French")).content, usual)


def test_the_length_of_speech_follows_the_text(tiny: Family) -> None:
    assert tiny.prompt(ask("abc")).max_frames == 128 + 16 * 3
    assert tiny.prompt(ask("x. " * 300)).max_frames == 4096


@pytest.mark.parametrize(
    ("wishes", "error", "words"),
    [
        ({"voice": "nobody"}, UnknownVoice, "nobody"),
        ({"voice": Voice.cloned(CLIP)}, InvalidRequest, "cannot clone"),
        ({"voice": Voice(embedding=(0.1,) * DIM)}, InvalidRequest, "embedding"),
        ({"voice": Voice(description="An old man")}, InvalidRequest, "description"),
        ({"instructions": "sadly"}, InvalidRequest, "instructions"),
        ({"language": "ja"}, InvalidRequest, "no language"),
        ({"options": {"cfg_alpha": 11.0}}, InvalidRequest, "cfg_alpha"),
        ({"options": {"cfg_alpha": "much"}}, InvalidRequest, "cfg_alpha"),
        ({"options": {"cfg": 1.0}}, InvalidRequest, "cfg_alpha"),
        ({"text": "x. " * 1000}, TextTooLong, "2048"),
        ({"text_open": True}, InvalidRequest, "whole text"),
    ],
)
def test_what_cannot_be_served_is_refused(tiny: Family, wishes: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        tiny.prompt(ask(**wishes))


def test_an_empty_reference_is_refused(family: Family) -> None:
    with pytest.raises(BadAudio, match="empty"):
        family.prompt(ask(voice=Voice.cloned(Clip(np.zeros((1, 0), np.float32), 24_000))))


def test_a_checkpoint_with_an_encoder_and_no_voices_asks_for_a_reference(tmp_path: Path) -> None:
    import json

    write(tmp_path, Tiny(encoder=True))
    settings = json.loads((tmp_path / "params.json").read_text())
    settings["multimodal"]["audio_tokenizer_args"]["voice"] = {}
    (tmp_path / "params.json").write_text(json.dumps(settings))
    family = Family.open(tmp_path)
    assert family.info.can.names() == ("clone",)
    with pytest.raises(InvalidRequest, match="reference"):
        family.prompt(ask(voice=None))
    assert len(family.prompt(ask(voice=Voice.cloned(CLIP))).content) > 2


def test_a_voice_that_is_not_rows_of_the_right_width_is_refused(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    write_voices(tmp_path, {"hi_male": np.zeros((3, DIM + 1), np.float32)})
    with pytest.raises(CheckpointError, match=f"hi_male.pt must hold rows of {DIM}"):
        Family.open(tmp_path)
    torch.save({"rows": Path("evil")}, tmp_path / "voice_embedding" / "hi_male.pt")
    with pytest.raises(CheckpointError, match="plain tensors"):
        Family.open(tmp_path)
    (tmp_path / "voice_embedding" / "hi_male.pt").unlink()
    with pytest.raises(CheckpointError, match="lacks the voice 'hi_male'"):
        Family.open(tmp_path)
