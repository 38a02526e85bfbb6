"""Control tokens in a text are text, modes are laid out as documented, and what cannot be served is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest
from rhapsode.models.higgs import chat
from rhapsode.models.higgs.prompt import HiggsPrompt, RepetitionWindow, audio_rows
from rhapsode.models.higgs.repetition import usual_window
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny.higgs import SAMPLE_RATE, V2_CONTROL, V3_CONTROL, Tiny, reference_audio, token, tokenizer, write
from unit.higgs.asked import SPECS, Family

CLIP, OTHER = (Clip(reference_audio(samples), SAMPLE_RATE) for samples in (3000, 4100))
V2_FIRST, V3_FIRST = (
    min(entry["id"] for entry in tokenizer(Tiny(generation=generation))["added_tokens"]) for generation in (2, 3)
)
NO_SCENE = {"scene": ""}


@pytest.fixture(scope="module")
def v2(tiny_v2: Path) -> Family:
    return Family.open(2, tiny_v2)


@pytest.fixture(scope="module")
def v3(tiny_v3: Path) -> Family:
    return Family.open(3, tiny_v3)


def prompt_of(family: Family, text: str, *references: Reference, **wishes: Any) -> HiggsPrompt:
    voice = wishes.pop("voice", Voice(references=references))
    return family.prompts([SpeechRequest(text, voice, **wishes)])[0]


def words_of(prompt: HiggsPrompt) -> str:
    """The text of a prompt: control tokens by name, audio as one mark."""
    generation = 2 if len(prompt.last) and prompt.last[0, 1] >= 0 else 3
    named = {token(Tiny(generation=generation), name): name for name in (V2_CONTROL, V3_CONTROL)[generation - 2]}
    joined = {256 + i: word for i, word in enumerate(("as", "ass", "assi", "assis", "assist", "assista", "assistan"))}
    vocabulary = {number: piece for piece, number in tokenizer(Tiny())["model"]["vocab"].items()} | joined
    text, audio = "", False
    for row in np.concatenate([prompt.content, prompt.last[:0]]):
        if row[1] >= 0:
            text += "" if audio else "<audio>"
        elif row[0] in named:
            text += named[row[0]]
        else:
            piece = vocabulary[row[0]]
            text += piece.replace("\u0120", " ").replace("\u010a", "\n")
        audio = row[1] >= 0
    return text


# --- control tokens ---


@pytest.mark.parametrize("mark", ["<|eot_id|>", "<|audio_out_bos|>", "<|AUDIO_OUT|>", "<|scene_desc_end|>"])
def test_control_tokens_of_v2_are_read_as_text_wherever_they_are_written(v2: Family, mark: str) -> None:
    def controls(text: str = "Hello", words: str = "words", scene: str = "Here.", system: str = "Speak.") -> int:
        given = prompt_of(v2, text, Reference(CLIP, words), instructions=system, options={"scene": scene})
        tokens = given.content[given.content[:, 1] < 0, 0]
        return int((tokens >= V2_FIRST).sum())

    usual = controls()
    assert controls(text=f"Hello{mark}") == controls(words=f"words{mark}") == usual
    assert controls(scene=f"Here.{mark}") == controls(system=f"Speak.{mark}") == usual
    plain = prompt_of(v2, "Hello", options=NO_SCENE)
    assert prompt_of(v2, f"Hello{mark}", options=NO_SCENE).length == plain.length + len(mark)


def test_tags_of_v3_are_tokens_and_other_control_tokens_are_text(v3: Family) -> None:
    plain = prompt_of(v3, "ab").length
    assert prompt_of(v3, "a<|emotion:elation|>b").length == plain + 1
    assert prompt_of(v3, "<|sfx:laughter|>ab").length == plain + 1
    for mark in ("<|audio|>", "<|text|>", "<|ref_audio|>", "<|endoftext|>", "<|emotion:unknown|>"):
        assert prompt_of(v3, f"a{mark}b").length == plain + len(mark)


@pytest.mark.parametrize("generation", [2, 3])
def test_a_lone_surrogate_is_no_crash(request, generation: int) -> None:
    family = request.getfixturevalue(f"v{generation}")
    assert prompt_of(family, "a\ud800b").length == prompt_of(family, "a?b").length


# --- v2: scenes, speakers, references ---


def test_a_plain_prompt_has_the_usual_system_message_and_scene(v2: Family) -> None:
    prompt = prompt_of(v2, " Hello ")
    assert words_of(prompt) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nGenerate audio following instruction.\n\n"
        "<|scene_desc_start|>\nAudio is recorded from a quiet room.\n<|scene_desc_end|><|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n<|audio_out_bos|>"
    )
    assert prompt.last[0, 1:].tolist() == [16] * 3  # the first row is `begin` throughout, and is not drawn


def test_instructions_are_the_system_message_and_an_empty_scene_is_left_out(v2: Family) -> None:
    said = words_of(prompt_of(v2, "Hi", instructions=" Whisper. ", options=NO_SCENE))
    assert "\n\nWhisper.<|eot_id|>" in said
    assert "scene" not in said


def test_a_described_voice_is_a_line_of_the_scene(v2: Family) -> None:
    said = words_of(prompt_of(v2, "Hi", voice=Voice(description="an old\nman")))
    assert "quiet room.\n\nSPEAKER0: an old man\n<|scene_desc_end|>" in said


def test_speakers_without_references_have_a_system_message_of_their_own(v2: Family) -> None:
    text = "[SPEAKER0] Hi. [SPEAKER1] Ho."
    assert chat.SPEAKERS_SYSTEM in words_of(prompt_of(v2, text))
    assert chat.SYSTEM in words_of(prompt_of(v2, text, Reference(CLIP, "a"), Reference(OTHER, "b")))


def test_references_with_transcripts_are_turns_with_their_speakers(v2: Family) -> None:
    said = words_of(prompt_of(v2, "Hi", Reference(CLIP, "one"), Reference(OTHER, "[SPEAKER5] two"), options=NO_SCENE))
    turns = said.split("<|eot_id|>")[1:-2]
    spoken = "\n\n<|audio_out_bos|><audio><|audio_eos|>"
    assert [turn.removeprefix("<|start_header_id|>") for turn in turns[:4]] == [
        "user<|end_header_id|>\n\n[SPEAKER0] one", f"assistant<|end_header_id|>{spoken}",
        "user<|end_header_id|>\n\n[SPEAKER5] two", f"assistant<|end_header_id|>{spoken}",
    ]  # fmt: skip
    assert "\n\none<|eot_id|>" in words_of(prompt_of(v2, "Hi", Reference(CLIP, "one")))  # one alone has no tag


def test_references_without_transcripts_are_in_the_scene(v2: Family) -> None:
    said = words_of(prompt_of(v2, "Hi", Reference(CLIP), Reference(OTHER, "words")))
    audio = "<|audio_out_bos|><audio><|audio_eos|>"
    assert f"quiet room.\n\nSPEAKER0: {audio}\nSPEAKER1: {audio}\n<|scene_desc_end|>" in said
    assert "words" not in said


def test_a_line_of_the_scene_without_a_description_takes_a_reference(v2: Family) -> None:
    scene = "A café.\n\nSPEAKER0: a child\nSPEAKER1:"
    said = words_of(prompt_of(v2, "Hi", Reference(CLIP, "words"), options={"scene": scene}))
    assert "SPEAKER0: a child\nSPEAKER1: <|audio_out_bos|><audio><|audio_eos|>\n<|scene_desc_end|>" in said


def test_a_tokenizer_without_marks_for_scenes_reads_them_as_characters(tmp_path: Path, v2: Family) -> None:
    folder = write(tmp_path / "old", Tiny())
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("scene_desc", "other"))
    marks = len("<|scene_desc_start|>") + len("<|scene_desc_end|>")
    assert prompt_of(Family.open(2, folder), "Hi").length == prompt_of(v2, "Hi").length + marks - 2


# --- references ---


def test_references_of_several_requests_are_encoded_as_if_alone_and_once(v2: Family) -> None:
    clips = [Reference(Clip(reference_audio(2500 + 777 * i), SAMPLE_RATE), "a") for i in range(3)]
    asked = [SpeechRequest("Hi", Voice(references=(one,))) for one in (*clips, clips[0])]
    together = v2.prompts(asked)
    calls: list[int] = []
    real = v2.encode._encoder
    v2.encode._encoder = lambda given: (calls.append(len(given)), real(given))[1]
    try:
        alone = [v2.prompts([one])[0] for one in asked]
    finally:
        v2.encode._encoder = real
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.content, other.content)
    assert sum(calls) == (4 if not v2.encode._cache._max_bytes else 0)


def test_a_short_reference_of_v3_is_filled_up_to_a_second(v3: Family) -> None:
    prompt = prompt_of(v3, "Hi", Reference(CLIP, "a"))
    assert len(audio_rows(prompt.content)) == 25 + 2  # frames of a second, and the delay


def test_an_older_tokenizer_of_v3_leaves_transcripts_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "old", Tiny(generation=3))
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<|ref_text|>", "<|unknown|>"))
    family = Family.open(3, folder)
    with_words, without = (prompt_of(family, "Hi", Reference(CLIP, text)) for text in ("words", None))
    assert np.array_equal(with_words.content, without.content)


# --- limits, options and errors ---


def test_limits_count_frames_that_are_heard(v2: Family, v3: Family) -> None:
    for family in (v2, v3):
        prompt = prompt_of(family, "Hello.")
        assert (prompt.max_frames, prompt.silent_steps) == (200 + 24 * 6, 2)


def test_the_window_of_repetition_is_the_requests_or_the_checkpoints(v2: Family, tmp_path: Path) -> None:
    assert prompt_of(v2, "Hi").repetition == RepetitionWindow(7, 2)
    assert prompt_of(v2, "Hi", options={"ras_window": 9, "ras_limit": 0}).repetition == RepetitionWindow(9, 0)
    (tmp_path / "generation_config.json").write_text('{"ras_win_len": 5, "ras_win_max_num_repeat": 3}')
    assert usual_window(tmp_path) == RepetitionWindow(5, 3)
    (tmp_path / "generation_config.json").write_text('{"ras_win_len": null}')
    assert usual_window(tmp_path).limit == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": "[SPEAKER0] [SPEAKER1]"}, "nothing to say"),
        ({"voice": Voice(references=(Reference(CLIP, "  "),))}, "transcript is empty"),
        ({"voice": Voice.cloned(Clip(np.zeros((1, 0), np.float32), SAMPLE_RATE), "a")}, "0.1 to 100 s"),
        ({"voice": Voice.cloned(Clip(np.zeros((1, 101 * 8000), np.float32), 8000), "a")}, "0.1 to 100 s"),
        ({"voice": Voice(references=(Reference(CLIP, "a"),) * 9)}, "8 references"),
        ({"options": {"scene": "SPEAKER0:"}}, "0 references"),
        ({"options": {"ras_window": 0}}, "ras_window"),
        ({"options": {"chunk": "word"}}, "chunk"),
        ({"text": "\ufeff", "options": {"chunk": "sentence"}}, "nothing to say"),
        ({"options": {"scenes": "x"}}, "scene"),
    ],
)
def test_what_v2_cannot_serve_is_refused(v2: Family, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        v2.prompts([SpeechRequest(**{"text": "Hello", **fields})])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instructions": "sadly"}, "emotion:elation"),
        ({"voice": Voice(description="an old man")}, "cannot design"),
        ({"voice": Voice(references=(Reference(CLIP, "a"),) * 2)}, "one reference"),
        ({"options": {"ras_window": 7}}, "no option"),
        ({"text": "\ufeff", "options": {"chunk": "sentence"}}, "nothing to say"),
    ],
)
def test_what_v3_cannot_serve_is_refused(v3: Family, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        v3.prompts([SpeechRequest(**{"text": "Hello", **fields})])


# --- texts in pieces ---


def following(family: Family, asked: SpeechRequest) -> list[HiggsPrompt]:
    spec = SPECS[family.generation]
    work: Any = checked(asked, spec, spec.info(), Limits())
    found = []
    while work is not None:
        prompt = family.encode([family.prepare(work)])[0]
        found.append(prompt)
        work = prompt.following() if prompt.following else None
    return found


def test_a_following_turn_of_v2_closes_the_speech_before_it(v2: Family) -> None:
    text = "[SPEAKER0] One. [SPEAKER1] Two."
    first, second = following(v2, SpeechRequest(text, options={"chunk": "speaker"}))
    assert second.continues
    assert not second.new_segment
    assert (second.content[0, 1:] == 17).all()  # the row of `end` that was drawn and not fed back
    assert words_of(second).startswith("<audio><|audio_eos|><|eot_id|><|start_header_id|>user")
    assert first.positions >= sum(p.length + p.silent_steps + p.max_frames for p in (first, second))
    assert second.afresh.length > second.length


def test_a_following_sentence_of_v3_has_the_reference_and_no_other_context(v3: Family) -> None:
    asked = SpeechRequest("One. Two.", Voice.cloned(CLIP, "a"), options={"chunk": "sentence"})
    context, first, second = following(v3, asked)
    assert (context.max_frames, context.positions) == (0, 0)
    for sentence, is_first in ((first, True), (second, False)):
        assert (sentence.continues, sentence.new_segment) == (False, not is_first)
        assert np.array_equal(sentence.content[: context.length], context.content)  # its pages can be shared


@pytest.mark.parametrize("generation", [2, 3])
def test_the_context_of_an_open_text_is_ready_before_its_first_sentence(request, generation: int) -> None:
    family: Family = request.getfixturevalue(f"v{generation}")
    spec = SPECS[generation]
    asked = checked(SpeechRequest("", Voice.cloned(CLIP, "abc"), text_open=True), spec, spec.info(), Limits())
    context = family.encode([family.prepare(asked)])[0]
    assert (context.max_frames, len(context.last)) == (0, 0)
    context.feed.push("Hello there.")
    context.feed.close()
    turn = family.encode([family.prepare(context.following())])[0]
    whole = prompt_of(family, "Hello there.", Reference(CLIP, "abc"))
    assert turn.continues == (generation == 2)
    assert not turn.new_segment
    before = context.content if turn.continues else context.content[:0]
    assert np.array_equal(np.concatenate((before, turn.content)), whole.content)
    assert np.array_equal(turn.last, whole.last)
    assert turn.following() is None
