"""The talker says what upstream says: the same prompts, logits, probabilities and greedy codes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rhapsode.models.fish_s2_pro.prompt import FishPrompt
from rhapsode.nn.kernels.sampling import Settings, TopP
from rhapsode.nn.sampling import probabilities
from rhapsode.types import Sampling
from tiny.talking import TalkerHarness
from unit.fish_s2_pro.asked import CASES, INDEX, Family, golden, request

GREEDY = Sampling(temperature=0.0)


def columns(prompt: FishPrompt) -> np.ndarray:
    return np.concatenate((prompt.content, prompt.last))


def contexts(family: Family, name: str) -> list[np.ndarray]:
    """All positions before each generation of a case; later ones hold upstream's codes of those before."""
    arrays, found, before = golden(name), [], np.zeros((0, 1 + INDEX["codebooks"]), np.int64)
    family.know(name)
    for i, prompt in enumerate(family.prompts(request(name))):
        assert prompt.continues == prompt.new_segment == (i > 0)
        found.append(np.concatenate((before, columns(prompt))))
        before = np.concatenate((found[-1], family.encode._segments.frames(arrays[f"greedy_codes_{i}"])))
    return found


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_upstreams(family: Family, name: str) -> None:
    arrays, found = golden(name), contexts(family, name)
    assert len(found) == CASES[name]["batches"]
    for i, positions in enumerate(found):
        np.testing.assert_array_equal(positions.T, arrays[f"prompt_{i}"])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("piece", [1000, 7])
def test_greedy_codes_are_upstreams(family: Family, name: str, piece: int) -> None:
    arrays, case = golden(name), CASES[name]
    most = case.get("options", {}).get("max_frames", INDEX["frames"])
    for i, positions in enumerate(contexts(family, name)):
        stage = TalkerHarness(family.talker, positions=512)
        prompt = FishPrompt(most, length=len(positions) - 1, content=positions[:-1], last=positions[-1:])
        stage.join([2], [prompt], GREEDY, piece=piece)
        codes = []
        for _ in range(most + 1):
            step = stage.step(2)
            assert bool(step.emitted) != bool(step.stopped)
            if step.stopped or len(codes) == most:
                break
            codes.append(step.frames[0])
        assert bool(step.stopped) == case["stopped"][i]
        np.testing.assert_array_equal(torch.stack(codes), arrays[f"greedy_codes_{i}"])


def forced(family: Family, arrays: dict[str, np.ndarray]) -> torch.Tensor:
    """The slow model's hidden states before each of upstream's forced frames."""
    frames = family.encode._segments.frames(arrays["forced_codes"])
    positions = np.concatenate((arrays["prompt_0"].T, frames[:-1]))
    stage = TalkerHarness(family.talker, positions=512)
    stage.table.pages[0] = torch.tensor(stage._pages[0])
    embedded = family.talker.net.embed(torch.from_numpy(positions)[None])
    hidden = family.talker.hidden(embedded, stage.rows(0), torch.arange(len(positions))[None])
    return hidden[0, -len(frames) :]


LOGITS = [name for name in CASES if "slow_logits" in golden(name)]


@pytest.mark.parametrize("name", LOGITS)
@torch.inference_mode()
def test_logits_are_upstreams(family: Family, name: str) -> None:
    arrays, net = golden(name), family.talker.net
    hidden, codes = forced(family, arrays), torch.from_numpy(arrays["forced_codes"])
    np.testing.assert_allclose(hidden, arrays["slow_hidden"], atol=2e-5)
    start, end = net._semantic_start, net._end
    drawable = np.concatenate(
        (arrays["slow_logits"][:, start : start + net._codes], arrays["slow_logits"][:, end, None]), 1
    )
    np.testing.assert_allclose(net.logits(hidden), drawable, atol=1e-4)
    fast = []

    def choose(book: int, logits: torch.Tensor) -> torch.Tensor:
        fast.append(logits)
        return codes[:, book]

    net.fast.generate(hidden, codes[:, 0], choose)
    np.testing.assert_allclose(torch.stack(fast, 1), arrays["fast_logits"], atol=1e-4)


@pytest.mark.parametrize("array", ["probs_slow", "probs_slow_ras", "probs_fast"])
def test_probabilities_are_upstreams(family: Family, array: str) -> None:
    arrays, net, wish = golden("plain"), family.talker.net, INDEX["filter"]
    if array == "probs_slow_ras":
        wish = {**wish, "temperature": 1.0, "top_p": 0.9}
    logits = torch.from_numpy(arrays["slow_logits" if "slow" in array else "fast_logits"][:4])
    expected = torch.from_numpy(arrays[array])
    if "slow" in array:
        ids = [*range(net._semantic_start, net._semantic_start + net._codes), net._end]
        assert expected.sum() == pytest.approx(float(expected[:, ids].sum()))
        logits, expected = logits[:, ids], expected[:, ids]
    else:
        logits = logits[:, 0]
    given = [torch.full((4,), wish[name]) for name in ("temperature", "top_k", "top_p")]
    np.testing.assert_allclose(probabilities(logits, Settings(*given, TopP.BELOW)), expected, atol=2e-6)


# --- repetition ---


def test_a_repeated_token_is_drawn_again_but_not_that_of_the_first_frame(family: Family) -> None:
    """The window has the last ten tokens of this generation, without the first; greedy requests never draw again."""
    talker = family.talker
    positions = contexts(family, "plain")[0]
    prompt = FishPrompt(100, length=len(positions) - 1, content=positions[:-1], last=positions[-1:])
    stage = TalkerHarness(talker, positions=512)
    stage.join([0], [prompt], Sampling(temperature=1.0, top_k=0, top_p=1.0), seeds=[5])
    drawn = []
    for i in range(25):
        drawn.append(int(stage.step(0).frames[0, 0]))
        window = sorted(x for x in stage.state.recent[0].tolist() if x >= 0)
        assert window == sorted(drawn[max(1, i - 9) : i + 1])


def test_a_prompt_that_continues_starts_with_an_empty_window(family: Family) -> None:
    talker, positions = family.talker, contexts(family, "plain")[0]
    prompt = FishPrompt(100, length=len(positions) - 1, content=positions[:-1], last=positions[-1:])
    stage = TalkerHarness(talker, positions=512)
    stage.join([0], [prompt], Sampling(temperature=1.0), seeds=[5])
    for _ in range(4):
        stage.step(0)
    again = replace(prompt, continues=True)
    base = int(stage.table.position[0])
    talker.prefill([again], [(0, again.length, base)], stage.rows(0), stage.state)
    stage.table.position[0] += again.length
    assert (stage.state.recent[0] == -1).all()
    stage.step(0)
    assert (stage.state.recent[0] == -1).all()
    stage.step(0)
    assert (stage.state.recent[0] >= 0).sum() == 1
