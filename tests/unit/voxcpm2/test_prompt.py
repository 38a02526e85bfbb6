"""Prompts are upstream's, in every mode; and what cannot be served is said in one clear sentence."""

import json
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.checkpoints import hub
from rhapsode.errors import CheckpointError, InvalidRequest, TextTooLong
from rhapsode.models.registry import find
from rhapsode.models.voxcpm2 import tokenizer
from rhapsode.models.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START, read
from rhapsode.models.voxcpm2.prompt import ID, PATCH, VoxPrompt
from rhapsode.types import Reference, SpeechRequest, Voice
from tiny.llama_tokenizer import vocabulary
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, config, write
from unit.voxcpm2.asked import CASES, Family, clip, request

Families = Callable[[str], Family]


@pytest.fixture(scope="session")
def parts(family: Families) -> Family:
    return family("zero_shot")


def ids(prompt: VoxPrompt) -> list[int]:
    """What is at each position, the last included."""
    return [int(x) for x in np.concatenate([prompt.content[:, ID], prompt.last[:1]])]


def ask(text: str = "Hello there.", voice: Voice | None = None, **wishes: Any) -> SpeechRequest:
    options = {name: wishes.pop(name) for name in list(wishes) if name != "instructions"}
    return SpeechRequest(text, voice or Voice(), options=options, **wishes)


@pytest.mark.parametrize("name", CASES)
def test_tokens_are_upstreams(family: Families, name: str) -> None:
    case = CASES[name]
    patch_samples = 640 * case["recipe"]["patch"]

    def patches(samples: int) -> list[int]:
        return [PATCH] * ceil(ceil(samples * SAMPLE_RATE / case["rate"]) / patch_samples)

    wanted = [*case["tokens"], AUDIO_START, *patches(case["prompt"])]
    if case["reference"]:
        wanted = [REFERENCE_START, *patches(case["reference"]), REFERENCE_END, *wanted]
    assert ids(family(name).prompt(request(case))) == wanted


def test_silence_fills_up_the_end_of_a_voice_and_the_beginning_of_what_is_continued(parts: Family) -> None:
    voice = Voice.cloned(clip(2_000), "ref")
    content = parts.prompt(ask(voice=voice, cloning="both")).content
    patch = content[content[:, ID] == PATCH]
    assert len(patch) == 1  # the continued one is the last position
    prompt = parts.prompt(ask(voice=voice, cloning="both"))
    assert not np.allclose(patch[0], prompt.last)


def test_the_codec_hears_up_to_three_patches_before_the_first(parts: Family) -> None:
    long, short = (Voice.cloned(clip(n), "ref") for n in (20_000, 2_000))
    heard = parts.prompt(ask(voice=long)).heard
    assert heard.shape == (3, 4, 8)
    assert np.array_equal(heard[-1].flatten(), parts.prompt(ask(voice=long)).last[1:])
    assert len(parts.prompt(ask(voice=short)).heard) == 1
    assert len(parts.prompt(ask(voice=short, cloning="both")).heard) == 2
    assert parts.prompt(ask(voice=long, cloning="reference")).heard is None
    assert parts.prompt(ask()).heard is None


def test_a_transcript_is_continued_unless_there_are_instructions(parts: Family) -> None:
    voice = Voice.cloned(clip(3_000), "ref")
    assert ids(parts.prompt(ask(voice=voice)))[-1] == PATCH
    told = ids(parts.prompt(ask(voice=voice, instructions="sadly")))
    assert (told[0], told[-1]) == (REFERENCE_START, AUDIO_START)
    only_sound = ids(parts.prompt(ask(voice=Voice.cloned(clip(3_000)))))
    assert (only_sound[0], only_sound[-1]) == (REFERENCE_START, AUDIO_START)


def test_a_description_and_instructions_come_in_brackets_before_the_text(parts: Family) -> None:
    plain = ids(parts.prompt(ask("(An old man, slowly)Hi.")))
    described = Voice(description="An  old (man)")
    assert ids(parts.prompt(ask("Hi.", described, instructions="slowly"))) == plain


def test_line_breaks_are_spaces(parts: Family) -> None:
    assert ids(parts.prompt(ask("Hi\n\nyou"))) == ids(parts.prompt(ask("Hi you")))


def test_a_space_before_the_text_parts_it_from_the_transcript(parts: Family) -> None:
    voice = Voice.cloned(clip(3_000), "the ref.")
    assert ids(parts.prompt(ask(" Hi.", voice))) == ids(parts.prompt(ask("\n\tHi.", voice)))
    assert ids(parts.prompt(ask(" Hi.", voice))) != ids(parts.prompt(ask("Hi.", voice)))


def test_a_second_recording_is_continued_and_the_first_is_the_sound_of_the_voice(parts: Family) -> None:
    continued = Reference(clip(5_000, seed=1), "ref")
    alone = parts.prompt(ask(voice=Voice(continued=continued)))
    assert np.array_equal(alone.last, parts.prompt(ask(voice=Voice(references=(continued,)))).last)
    sound = Reference(clip(9_000), "not used")
    beside = parts.prompt(ask(voice=Voice(references=(sound,), continued=continued)))
    assert ids(beside) == [REFERENCE_START, *[PATCH] * 4, REFERENCE_END, *ids(alone)]
    assert np.array_equal(beside.last, alone.last)


def test_the_length_is_upstreams_limit(parts: Family) -> None:
    tokens = len(ids(parts.prompt(ask("Hello")))) - 1
    assert parts.prompt(ask("Hello")).max_frames == 6 * tokens + 10
    assert parts.prompt(ask("Hello", max_len=5)).wanted_frames == 5
    continued = Voice.cloned(clip(3_000), "a long transcript")
    assert parts.prompt(ask("Hello", continued)).max_frames == 6 * tokens + 10


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"cfg_value": 11.0}, "cfg_value"),
        ({"inference_timesteps": 0}, "inference_timesteps"),
        ({"inference_timesteps": 51}, "max_timesteps"),
        ({"min_len": -1}, "min_len"),
        ({"max_len": 0}, "max_len"),
        ({"cfg_value": "much"}, "cfg_value"),
        ({"cloning": "both"}, "reference audio"),
        ({"cloning": "sometimes"}, "cloning"),
        ({"voice": Voice.cloned(clip(3_000)), "cloning": "continuation"}, "transcript"),
        ({"voice": Voice(continued=Reference(clip(3_000)))}, "transcript"),
        ({"voice": Voice(continued=Reference(clip(3_000), "a")), "instructions": "b"}, "instructions"),
        ({"voice": Voice(continued=Reference(clip(3_000), "a")), "cloning": "both"}, "one reference alone"),
        (
            {"voice": Voice.cloned(clip(3_000), "a"), "cloning": "both", "instructions": "b"},
            "instructions",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(parts: Family, wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parts.prompt(ask(**wishes))


def test_a_text_that_can_never_fit_is_refused(parts: Family) -> None:
    with pytest.raises(TextTooLong, match="512"):
        parts.prompt(ask("ha " * 400))


def test_chinese_words_are_taken_apart(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    encode, vocab = tokenizer.read(tmp_path), vocabulary()
    assert encode("你好世界") == [vocab[char] for char in "你好世界"]
    assert encode("a你好") == [vocab["\u2581"], vocab["a"], vocab["你"], vocab["好"]]


def test_marks_that_users_write_are_text(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    assert vocabulary()["</s>"] not in tokenizer.read(tmp_path)("</s>")


def test_a_broken_checkpoint_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {}}}))
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        tokenizer.read(tmp_path)
    settings = config(Tiny())
    settings["lm_config"]["use_mup"] = True
    with pytest.raises(CheckpointError, match="muP"):
        read(settings)
    with pytest.raises(CheckpointError, match="lm_config"):
        read({})


def test_a_checkpoint_on_the_hub_is_known_by_its_architecture_and_fetched_with_its_vae(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config(Tiny())))
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(hub, "fetch", lambda name, files, *_, **__: asked.append(files) or tmp_path)
    found = find("openbmb/VoxCPM2")
    assert (found.spec.name, found.checkpoint) == ("voxcpm2", tmp_path)
    assert "config.json" in asked[0]
    assert "audiovae.pth" not in asked[0]
    assert {"audiovae.pth", "*.safetensors"} <= set(asked[1])
