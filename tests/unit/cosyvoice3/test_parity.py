"""The language model says what upstream says: the same prompts, logits, tokens and probabilities."""

import numpy as np
import pytest
import torch

from rhapsode.nn.kernels.sampling import Repetition, Settings, TopP
from rhapsode.nn.sampling import probabilities
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from unit.cosyvoice3.asked import CODES, INDEX, KEPT, Family, Speaker, golden, rows_of, walk

CASES = INDEX["llm"]
END = "<|endofprompt|>"


def request(name: str, **wishes) -> SpeechRequest:
    """The request of a case: the system line is ours, and the rest is the user's."""
    case, reference = CASES[name], golden("reference")
    clip = Clip(np.zeros((1, 24_000), np.float32), 24_000)
    options = {"reference_tokens": reference["prompt_speech_token"].tolist(), **wishes.pop("options", {})}
    embedding = tuple(reference["speaker_embedding"].tolist())
    text, spoken = case["text"].rpartition(END)[2], case["prompt_text"].rpartition(END)[2]
    if name == "sft":
        return SpeechRequest(text, Voice(name="preset"), options=wishes.pop("options", {}), **wishes)
    voice = Voice(references=(Reference(clip, spoken or None),), embedding=embedding)
    if name == "instruct2":
        line = case["prompt_text"].removesuffix(END).removeprefix("You are a helpful assistant. ")
        wishes["instructions"] = line
    return SpeechRequest(text, voice, options=options, **wishes)


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_upstreams(family: Family, name: str) -> None:
    arrays, case = golden(f"llm-{name}"), CASES[name]
    (prompt,) = family.prompts(request(name))
    np.testing.assert_array_equal(rows_of(prompt), arrays["lm_input"])
    assert (prompt.least_frames, prompt.max_frames) == (case["min_len"], case["max_len"])


def test_a_stored_reference_gives_the_prompt_of_the_reference_itself(family: Family) -> None:
    case = CASES["zero_shot"]
    (stored,) = family.prompts(SpeechRequest(case["text"], Voice(name="saved")))
    np.testing.assert_array_equal(rows_of(stored), golden("llm-zero_shot")["lm_input"])
    assert stored.voice is not None
    np.testing.assert_array_equal(stored.voice.tokens, golden("reference")["prompt_speech_token"])
    np.testing.assert_array_equal(stored.voice.mel, golden("reference")["prompt_mel"])


def forced(tokens: np.ndarray):
    return lambda logits, picks: int(tokens[len(picks)])


@pytest.mark.parametrize("name", CASES)
def test_logits_are_upstreams(family: Family, name: str) -> None:
    arrays = golden(f"llm-{name}")
    speaker = Speaker(family.talker, forced([*arrays["forced_tokens"], CODES + 1]))
    (prompt,) = family.prompts(request(name))
    assert speaker.speak(prompt)
    logits = np.stack(speaker.spoken.logits)[::4, :KEPT]
    np.testing.assert_allclose(logits, arrays["forced_logits"], atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_tokens_of_a_long_walk_are_upstreams(family: Family, name: str) -> None:
    tokens = golden(f"llm-{name}")["walk_tokens"]
    speaker = Speaker(family.talker, walk)
    (prompt,) = family.prompts(request(name))
    assert not speaker.speak(prompt, most=len(tokens))
    np.testing.assert_array_equal(speaker.spoken.picks, tokens)


@pytest.mark.parametrize("name", CASES)
def test_greedy_tokens_are_upstreams(family: Family, name: str) -> None:
    """Rows of the special tokens that no case uses are not upstream's, so that only speech tokens are compared."""
    tokens = golden(f"llm-{name}")["greedy_tokens"]
    assert (tokens < CODES).all()
    speaker = Speaker(family.talker, lambda logits, picks: int(logits[:KEPT].argmax()))
    (prompt,) = family.prompts(request(name, options={"enforce_min_length": False}))
    assert not speaker.speak(prompt, most=len(tokens))
    np.testing.assert_array_equal(speaker.spoken.picks, tokens)


# --- sampling ---


@pytest.mark.parametrize("i", range(4))
def test_probabilities_of_both_draws_are_upstreams(family: Family, i: int) -> None:
    case = {key.partition("_")[2]: array for key, array in golden("sampling").items() if key.startswith(f"{i}_")}
    scores = torch.from_numpy(case["logp"])[None]
    defaults, one = family.talker.defaults, torch.ones(1)
    settings = Settings(one * defaults.temperature, (one * defaults.top_k).long(), one * defaults.top_p, TopP.THROUGH)
    found = probabilities(scores, settings)[0]
    assert set(found.nonzero()[:, 0].tolist()) == set(case["nucleus_ids"].tolist())
    weight = case["nucleus_p"] / case["nucleus_p"].sum()
    np.testing.assert_allclose(found[torch.from_numpy(case["nucleus_ids"]).long()], weight, atol=1e-6)
    drawn = torch.from_numpy(case["nucleus_ids"]).long()[int(case["pick"])]
    recent = torch.full((1, 10), -1)
    history = case["history"][-10:]
    recent[0, : len(history)] = torch.from_numpy(history.astype(np.int64))
    limit = torch.tensor([family.talker._config.sampling.limit])
    every = Settings(one, torch.zeros(1, dtype=torch.int64), one, TopP.THROUGH)
    again = Repetition(recent, torch.tensor([0]), limit, every, one, other=True)
    assert bool(again.repeats(drawn[None])) == bool(case["resampled"])
    if case["resampled"]:
        second = probabilities(scores.scatter(1, drawn[None, None], -torch.inf), every)[0]
        np.testing.assert_allclose(second, case["fallback_p"], atol=1e-6)
