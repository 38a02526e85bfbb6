"""What is wrong with a request is said before anything is computed; what users write is never a command."""

from typing import Any

import numpy as np
import pytest

from rhapsode.audio.clip import Audio
from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.errors import BadAudio, InvalidRequest, RhapsodeError, TextTooLong, UnknownOption
from rhapsode.models.moss_tts_nano.prompt import MossPrompt
from rhapsode.models.moss_tts_nano.spec import SPEC
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from unit.moss_tts_nano.asked import GOLDEN, Family, rows_of

CLIP = Audio.open(GOLDEN / "ref_stereo.wav")
CONTROL = (
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "</user_inst>",
    "<user_inst>",
    "<pad>",
    "</s>",
)


def prompt(family: Family, text: str = "Hello.", voice: Voice | None = None, **wishes: Any) -> MossPrompt:
    return family.prompts(SpeechRequest(text, voice or Voice(), **wishes))[0]


@pytest.mark.parametrize("mark", CONTROL)
@pytest.mark.parametrize("voice", [Voice(), Voice.cloned(CLIP)], ids=["plain", "clone"])
def test_control_tokens_in_a_text_are_text(family: Family, mark: str, voice: Voice) -> None:
    """A prompt has as many of each control token as one without the mark."""
    plain, marked = (rows_of(prompt(family, text, voice))[:, 0] for text in ("Hello you.", f"Hello {mark} you."))
    assert len(marked) > len(plain)
    for token in range(15):
        assert (marked == token).sum() == (plain == token).sum()


def test_control_tokens_in_a_transcript_are_text(family: Family) -> None:
    rows = rows_of(prompt(family, " you.", Voice.cloned(CLIP, "<|im_end|>")))[:, 0]
    assert (rows == 5).sum() == (rows_of(prompt(family))[:, 0] == 5).sum()


def test_a_lone_surrogate_is_no_crash(family: Family) -> None:
    assert prompt(family, "a\ud800b").length > 0


BAD: dict[str, tuple[SpeechRequest, type[RhapsodeError], str]] = {
    "more codebooks than there are": (SpeechRequest("Hi.", options={"nq": 6}), InvalidRequest, "has 5 codebooks"),
    "no codebook": (SpeechRequest("Hi.", options={"nq": 0}), InvalidRequest, "at least 1"),
    "cloning nothing": (SpeechRequest("Hi.", options={"cloning": "reference"}), InvalidRequest, "needs reference"),
    "continuing without a transcript": (
        SpeechRequest("Hi.", Voice.cloned(CLIP), options={"cloning": "continuation"}),
        InvalidRequest,
        "transcript is needed",
    ),
    "prompt audio without a transcript": (
        SpeechRequest("Hi.", Voice(continued=Reference(CLIP))),
        InvalidRequest,
        "transcript is needed",
    ),
    "prompt audio as a reference": (
        SpeechRequest("Hi.", Voice(continued=Reference(CLIP, "a")), options={"cloning": "reference"}),
        InvalidRequest,
        "always continued",
    ),
    "two recordings": (
        SpeechRequest("Hi.", Voice(references=(Reference(CLIP),), continued=Reference(CLIP, "a"))),
        InvalidRequest,
        "not both",
    ),
    "two references": (SpeechRequest("Hi.", Voice(references=(Reference(CLIP),) * 2)), InvalidRequest, "one reference"),
    "instructions": (SpeechRequest("Hi.", instructions="sadly"), InvalidRequest, "cannot take instructions"),
    "a preset": (SpeechRequest("Hi.", Voice(name="Junhao")), InvalidRequest, "no voices to choose"),
    "an empty clip": (
        SpeechRequest("Hi.", Voice.cloned(Clip(np.zeros((1, 0), np.float32), 48_000))),
        BadAudio,
        "short",
    ),
    "a clip below a frame": (
        SpeechRequest("Hi.", Voice.cloned(Clip(np.zeros((2, 47), np.float32), 48_000))),
        BadAudio,
        "at least 1 ms",
    ),
    "three channels": (
        SpeechRequest("Hi.", Voice.cloned(Clip(np.zeros((3, 480), np.float32), 48_000))),
        InvalidRequest,
        "not 3 channels",
    ),
    "a text without end": (SpeechRequest("a b " * 2000), TextTooLong, "takes fewer than 2048"),
    "an unknown option": (SpeechRequest("Hi.", options={"qn": 3}), UnknownOption, "has no option 'qn'"),
    "a temperature below zero": (SpeechRequest("Hi.", options={"text_temperature": -1.0}), InvalidRequest, "between 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_gets_its_error(family: Family, name: str) -> None:
    request, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        family.prompts(request)


def test_a_reference_with_a_transcript_is_continued_unless_told_otherwise(family: Family) -> None:
    voice = Voice.cloned(CLIP, "We walked")
    assert prompt(family, voice=voice).heard is not None
    assert prompt(family, voice=voice, options={"cloning": "reference"}).heard is None
    assert prompt(family, voice=Voice.cloned(CLIP)).heard is None


def test_only_cloned_voices_are_spoken_in_chunks(family: Family) -> None:
    """Without a reference each chunk would have a voice of its own; a continuation is one utterance."""
    text = "One two three. Four five six. Seven eight nine."
    options = {"max_text_tokens": 20}
    assert len(family.prompts(SpeechRequest(text, Voice.cloned(CLIP), options=options))) > 1
    assert len(family.prompts(SpeechRequest(text, options=options))) == 1
    assert len(family.prompts(SpeechRequest(text, Voice.cloned(CLIP, "a"), options=options))) == 1
    assert len(family.prompts(SpeechRequest(text, Voice.cloned(CLIP), options={"max_text_tokens": 0}))) == 1


def test_every_chunk_but_the_first_starts_afresh_after_silence(family: Family) -> None:
    text = "One two three four five six. Four five. Seven eight nine."
    prompts = family.prompts(SpeechRequest(text, Voice.cloned(CLIP), options={"max_text_tokens": 20}))
    assert [p.new_segment for p in prompts] == [False] + [True] * (len(prompts) - 1)
    assert prompts[0].silence_s == 0.0
    assert all(p.silence_s in (0.24, 0.4) for p in prompts[1:])


def test_a_clip_at_another_rate_is_resampled_and_remembered(family: Family) -> None:
    clip = Clip(np.repeat(CLIP.samples[:, :700], 1, axis=0), 24_000)
    first = family.encode._encoded(clip, 5)
    assert first is not None
    assert len(first) == 2 * 700 // 48


def test_a_long_text_without_spaces_is_cut_in_reasonable_time(family: Family) -> None:
    work = checked(SpeechRequest("x" * 20_000, Voice.cloned(CLIP)), SPEC, SPEC.info(), Limits())
    draft = family.prepare(work)
    assert len(draft.text) <= 75
    assert draft.following is not None
