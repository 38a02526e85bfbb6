"""What users write never becomes a control token, and what cannot be served is said in one clear sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.fish_s2_pro.prepare import transcripts
from rhapsode.models.fish_s2_pro.spec import SPEC
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny.fish_s2_pro import SAMPLE_RATE, Tiny, reference_audio, tokenizer, write
from unit.fish_s2_pro.asked import Family

IDS = {token["content"]: token["id"] for token in tokenizer()["added_tokens"]}
FIRST_CONTROL = min(IDS.values())
CLIP = Clip(reference_audio(200)[None], SAMPLE_RATE)


@pytest.fixture(scope="module")
def family(tiny: Path) -> Family:
    return Family.open(tiny)


def prompt_of(family: Family, text: str, *references: Reference, **wishes: Any) -> np.ndarray:
    (prompt,) = family.prompts(SpeechRequest(text, Voice(references=references), **wishes))
    return np.concatenate((prompt.content, prompt.last))


@pytest.mark.parametrize("mark", ["<|im_end|>", "<|im_start|>", "<|voice|>", "<|semantic:3|>", "<|endoftext|>"])
def test_control_tokens_in_a_text_or_a_transcript_are_read_as_text(family: Family, mark: str) -> None:
    plain = prompt_of(family, "Hello", Reference(CLIP, "words"))[:, 0]
    for said, ref in ((f"Hello{mark}", "words"), ("Hello", f"words{mark}")):
        found = prompt_of(family, said, Reference(CLIP, ref))[:, 0]
        assert len(found) == len(plain) + len(mark)
        assert (found >= FIRST_CONTROL).sum() == (plain >= FIRST_CONTROL).sum()


def test_phonemes_and_tags_in_brackets_are_passed_on(family: Family) -> None:
    plain = prompt_of(family, "ab")[:, 0].tolist()
    phonemes = prompt_of(family, "a<|phoneme_start|>b<|phoneme_end|>")[:, 0].tolist()
    at = next(i for i in range(len(plain)) if plain[i : i + 2] == [ord("a"), ord("b")])
    assert phonemes[at : at + 4] == [plain[at], IDS["<|phoneme_start|>"], plain[at + 1], IDS["<|phoneme_end|>"]]
    assert len(prompt_of(family, "[whisper] ab")) == len(plain) + len("[whisper] ")


def test_a_lone_surrogate_is_no_crash(family: Family) -> None:
    assert len(prompt_of(family, "a\ud800b")) == len(prompt_of(family, "a?b"))


def test_each_reference_has_the_tag_of_its_number_unless_it_has_one() -> None:
    found = transcripts([Reference(CLIP, "one"), Reference(CLIP, "<speaker:7>two"), Reference(CLIP)])
    assert found == "<|speaker:0|>one\n<|speaker:7|>two\n<|speaker:2|>"


def test_another_transcript_of_the_same_recording_is_another_prompt(family: Family) -> None:
    one, other = (prompt_of(family, "Hello", Reference(CLIP, words)) for words in ("abc", "abd"))
    assert one.shape == other.shape
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": "<|speaker:0|> <|speaker:1|>"}, "no words"),
        ({"instructions": "sadly"}, "brackets"),
        ({"voice": Voice(references=(Reference(CLIP, "  "),))}, "transcript is empty"),
        ({"voice": Voice.cloned(Clip(np.zeros((1, 0), np.float32), SAMPLE_RATE), "a")}, "empty"),
        ({"voice": Voice(references=(Reference(CLIP, "a"),) * 9)}, "8 references"),
        ({"voice": Voice(description="an old man")}, "cannot"),
        ({"options": {"chunk_length": 0}}, "chunk_length"),
        ({"options": {"chunk_len": 9}}, "chunk_length"),
    ],
)
def test_what_cannot_be_served_is_refused(family: Family, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        list(family.prompts(SpeechRequest(**{"text": "Hello", **fields})))


def test_text_and_references_must_leave_room_to_speak(tmp_path: Path) -> None:
    write(tmp_path, Tiny(max_seq_len=400))
    family = Family.open(tmp_path)
    with pytest.raises(TextTooLong, match="at most 200"):
        list(family.prompts(SpeechRequest("Hello " * 40)))


def test_a_short_text_reserves_what_it_needs_and_a_dialogue_what_all_of_it_needs(family: Family) -> None:
    (single,) = family.prompts(SpeechRequest("Hello."))
    assert (single.positions, single.max_frames) == (0, 200 + 24 * 6)
    first, second = family.prompts(SpeechRequest("<|speaker:0|>a.<|speaker:1|>b.", options={"chunk_length": 9}))
    assert first.positions == sum(p.length + 1 + p.max_frames for p in (first, second))
    assert second.continues
    assert second.afresh.length > second.length


def test_the_context_of_an_open_text_is_ready_before_its_first_sentence(family: Family) -> None:
    asked = checked(SpeechRequest("", Voice.cloned(CLIP, "abc"), text_open=True), SPEC, SPEC.info(), Limits())
    draft = family.prepare(asked)
    context = family.encode([draft])[0]
    assert (context.max_frames, len(context.last)) == (0, 0)
    context.feed.push("Hello there.")
    context.feed.close()
    turn = family.encode([family.prepare(context.following())])[0]
    whole = prompt_of(family, "Hello there.", Reference(CLIP, "abc"))
    assert turn.continues
    assert not turn.new_segment
    assert np.array_equal(np.concatenate((context.content, turn.content, turn.last)), whole)
    assert turn.following() is None
