"""A request becomes prompts: one for each sentence, all in one voice, and what a variant lacks is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.errors import BadAudio, InvalidRequest, RhapsodeError, TextTooLong
from rhapsode.models.base import Following
from rhapsode.models.chatterbox.encode import MORE, PER_TEXT_TOKEN
from rhapsode.models.chatterbox.spec import PRESET, ChatterboxOptions
from rhapsode.models.chatterbox.t3.prompt import FINGERPRINT, ID, MOST_TOKENS, NONE, VOICE, T3Prompt
from rhapsode.types import Clip, SpeechRequest, Voice
from tiny.chatterbox import GOLDEN
from unit.chatterbox.asked import Family


@pytest.fixture(scope="module")
def original(checkpoint: Path) -> Family:
    return Family.open(checkpoint, t3="original")


@pytest.fixture(scope="module")
def multilingual(checkpoint: Path) -> Family:
    return Family.open(checkpoint, t3="multilingual")


@pytest.fixture(scope="module")
def turbo(turbo_checkpoint: Path) -> Family:
    return Family.open(turbo_checkpoint)


def text_of(prompt: T3Prompt, rows: int = 704) -> list[int]:
    """The text's ids, with start and stop."""
    words = prompt.content[(prompt.content[:, VOICE] == NONE) & (prompt.content[:, ID] < rows)]
    return words[:, ID].tolist()


def test_every_sentence_is_a_prompt_of_its_own(original: Family) -> None:
    prompts = list(original.prompts(SpeechRequest("One two. Three four! Five?")))
    alone = [original.prompt(SpeechRequest(text)) for text in ("One two.", "Three four!", "Five?")]
    assert [text_of(prompt) for prompt in prompts] == [text_of(prompt) for prompt in alone]
    assert [prompt.new_segment for prompt in prompts] == [False, True, True]
    assert all(prompt.voice is prompts[0].voice for prompt in prompts)


def test_a_first_sentence_may_be_cut_at_a_clause(original: Family) -> None:
    text = "This is a rather long beginning, and here is what comes after it."
    options = {"first_piece_chars": 40}
    prompts = list(original.prompts(SpeechRequest(text, options=options)))
    assert len(prompts) == 2
    assert text_of(prompts[0]) == text_of(original.prompt(SpeechRequest("This is a rather long beginning,")))
    assert len(list(original.prompts(SpeechRequest(text)))) == 1


def test_text_that_arrives_later_becomes_further_prompts(original: Family) -> None:
    prompt = original.prompt(SpeechRequest("One two. Three fo", text_open=True))
    assert prompt.feed is not None
    assert prompt.following() is Following.NOT_YET
    prompt.feed.push("ur! Five an")
    following = original.encode([original.prepare(prompt.following())])[0]
    assert text_of(following) == text_of(original.prompt(SpeechRequest("Three four!")))
    prompt.feed.push("d six")
    prompt.feed.close()
    last = original.encode([original.prepare(following.following())])[0]
    assert text_of(last) == text_of(original.prompt(SpeechRequest("Five and six")))
    assert last.following() is None


def test_a_text_that_is_still_empty_prepares_the_voice(original: Family) -> None:
    prompt = original.prompt(SpeechRequest("", text_open=True))
    assert (prompt.max_frames, prompt.length) == (0, 10)  # speaker, eight rows of the reference, exaggeration
    prompt.feed.push("Hello there. And so")
    first = original.encode([original.prepare(prompt.following())])[0]
    assert first.new_segment is False
    np.testing.assert_array_equal(first.content[:10], prompt.content)


def test_equal_voices_share_their_positions_and_others_do_not(original: Family) -> None:
    def rows(**options: Any) -> np.ndarray:
        return original.prompt(SpeechRequest("Hello.", options=options)).content

    np.testing.assert_array_equal(rows(), rows(exaggeration=0.5, cfg_weight=0.1))
    assert rows()[0, FINGERPRINT] != rows(exaggeration=0.6)[0, FINGERPRINT]


def test_defaults_are_upstreams(original: Family, turbo: Family) -> None:
    assert original.prompt(SpeechRequest("Hello.")).cfg_weight == 0.5
    assert turbo.prompt(SpeechRequest("Hello.")).cfg_weight == 0.0
    defaults = [vars(family.talker.defaults) for family in (original, turbo)]
    assert [(d["temperature"], d["top_p"], d["repetition_penalty"]) for d in defaults] == [
        (0.8, 1, 1.2),
        (0.8, 0.95, 1.2),
    ]
    assert [d["top_k"] for d in defaults] == [0, 1000]


def test_the_flow_may_hear_less_of_the_reference(original: Family) -> None:
    whole = original.prompt(SpeechRequest("Hello.")).voice
    short = original.prompt(SpeechRequest("Hello.", options={"reference_s": 1.0})).voice
    assert whole is not None
    assert short is not None
    assert (len(whole.prompt_token), len(short.prompt_token), len(short.prompt_feat)) == (73, 25, 50)
    np.testing.assert_array_equal(short.prompt_feat, whole.prompt_feat[:50])
    np.testing.assert_array_equal(short.cond_tokens, whole.cond_tokens)


def test_how_long_speech_may_be_follows_from_its_text(original: Family) -> None:
    short, long = (original.prompt(SpeechRequest(text)) for text in ("Yes.", "Yes. " * 1 + "a " * 40))
    ids = len(text_of(short)) - 2
    assert short.max_frames == MORE + PER_TEXT_TOKEN * ids
    assert long.max_frames <= min(MOST_TOKENS, 333)  # this checkpoint has so many places


def test_a_sentence_that_is_too_long_is_refused(original: Family) -> None:
    with pytest.raises(TextTooLong, match=r"has \d+ tokens; this model takes at most 120"):
        list(original.prompts(SpeechRequest("Zyx9 " * 50)))


def test_a_sentence_of_turbo_needs_room_for_its_speech(turbo: Family) -> None:
    draft = turbo.prepare(SpeechRequest("Hello.", options=ChatterboxOptions()))
    with pytest.raises(TextTooLong, match="of 800 tokens leaves no room"):
        turbo.encode([replace(draft, ids=[5] * 800)])


# --- what a variant lacks ---


@pytest.mark.parametrize("option", ["exaggeration", "cfg_weight"])
def test_turbo_has_no_guidance_and_no_exaggeration(turbo: Family, option: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'{option}' has no effect on a turbo model") as caught:
        turbo.prompt(SpeechRequest("Hello.", options={option: 0.7}))
    assert caught.value.param == option


def test_a_deployment_may_have_no_guidance(checkpoint: Path) -> None:
    family = Family.open(checkpoint, guidance=False)
    with pytest.raises(InvalidRequest, match="'guidance: false'"):
        family.prompt(SpeechRequest("Hello.", options={"cfg_weight": 0.5}))
    assert family.prompt(SpeechRequest("Hello.", options={"cfg_weight": 0.0})).cfg_weight == 0
    assert family.prompt(SpeechRequest("Hello.")).cfg_weight == 0


@pytest.mark.parametrize(
    "options",
    [{"exaggeration": -1}, {"cfg_weight": 9.0}, {"reference_s": 0.1}, {"reference_s": 11}, {"first_piece_chars": 5}],
)
def test_values_out_of_range_are_refused(original: Family, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="must be"):
        original.prompt(SpeechRequest("Hello.", options=options))


def test_languages_are_those_of_the_variant(original: Family, multilingual: Family, turbo: Family) -> None:
    assert [len(family.info.languages) for family in (original, multilingual, turbo)] == [1, 23, 1]
    assert [family.info.variant for family in (original, multilingual, turbo)] == ["original", "multilingual", "turbo"]
    with pytest.raises(RhapsodeError, match="'xx'"):
        multilingual.prompt(SpeechRequest("Hello.", language="xx"))
    with pytest.raises(RhapsodeError, match="'fr'"):
        original.prompt(SpeechRequest("Bonjour.", language="fr"))


def test_a_language_begins_the_text(multilingual: Family) -> None:
    told = text_of(multilingual.prompt(SpeechRequest("Bonjour.", language="fr")), 2454)
    assert told[:2] == [255, 634]
    assert text_of(multilingual.prompt(SpeechRequest("Bonjour.")), 2454) == [255, *told[2:]]


def test_a_checkpoint_without_a_preset_needs_a_reference(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        if file.name != "conds.pt":
            (tmp_path / file.name).symlink_to(file)
    family = Family.open(tmp_path)
    assert (family.info.voices, family.info.default_voice) == ((), False)
    with pytest.raises(RhapsodeError, match="reference"):
        family.prompt(SpeechRequest("Hello."))


def test_the_preset_may_be_named(original: Family) -> None:
    named, silent = (original.prompt(SpeechRequest("Hello.", Voice(name=name))) for name in (PRESET, None))
    np.testing.assert_array_equal(named.content, silent.content)


def test_every_option_has_a_description() -> None:
    assert set(vars(ChatterboxOptions())) >= {"exaggeration", "cfg_weight", "first_piece_chars", "lenient_text"}


@pytest.mark.parametrize("variant", ["original", "turbo"])
def test_a_recording_gives_the_prompt_of_the_preset_that_upstream_made_of_it(
    variant: str, original: Family, turbo: Family
) -> None:
    family = {"original": original, "turbo": turbo}[variant]
    with np.load(GOLDEN / f"reference-{variant}.npz") as arrays:
        clip = Clip(arrays["wav"][None].astype(np.float32) / 32768, int(arrays["rate"]))
    preset, cloned = (family.prompt(SpeechRequest("Hello.", voice)) for voice in (Voice(), Voice.cloned(clip)))
    assert preset.voice is not None
    assert cloned.voice is not None
    np.testing.assert_allclose(cloned.voice_rows, preset.voice_rows, atol=1e-5)
    np.testing.assert_array_equal(cloned.content[:, :FINGERPRINT], preset.content[:, :FINGERPRINT])
    np.testing.assert_array_equal(cloned.voice.prompt_token, preset.voice.prompt_token)
    np.testing.assert_allclose(cloned.voice.prompt_feat, preset.voice.prompt_feat, atol=1e-3)
    np.testing.assert_allclose(cloned.voice.embedding, preset.voice.embedding, atol=1e-5)


def test_a_reference_that_is_too_short_is_refused(turbo: Family) -> None:
    clip = Clip(np.full((1, 24_000), 0.1, np.float32), 24_000)
    with pytest.raises(BadAudio, match=r"is 1\.0 s long; this model needs at least 5 s"):
        turbo.prompt(SpeechRequest("Hello.", Voice.cloned(clip)))
