"""What upstream computed with the same tiny checkpoints: prompts, logits, rows, frames and probabilities."""

import numpy as np
import pytest
import torch

from rhapsode.device.slots import SlotRow
from rhapsode.models.higgs.net import is_audio
from rhapsode.models.higgs.prompt import HiggsPrompt, audio_rows
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.delay import Delay
from rhapsode.nn.kernels.sampling import Repetition, Settings
from rhapsode.nn.sampling import probabilities
from rhapsode.types import Sampling
from tiny.talking import TalkerHarness
from unit.higgs.asked import Family, case, golden, names

GREEDY = Sampling(temperature=0.0)
CASES = [(generation, name) for generation in (2, 3) for name in names(generation)]
LAYOUTS = [*(("v2", 2, name) for name in names(2)), *(("v3", 3, name) for name in names(3))]
LAYOUTS += [("original", 2, name) for name in names(2)[:3]]


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def whole(prompt: HiggsPrompt, generation: int) -> np.ndarray:
    """All positions of a prompt, as upstream has them: v2's first row is not one of them."""
    assert prompt.content is not None
    return prompt.content if generation == 2 else np.concatenate([prompt.content, prompt.last])


@pytest.mark.parametrize(("layout", "generation", "name"), LAYOUTS)
def test_prompts_are_upstreams(request, layout: str, generation: int, name: str) -> None:
    family, expected = request.getfixturevalue(layout), golden(generation, name)
    columns = whole(family.prompt(name), generation)
    assert columns[:, 0].tolist() == expected["prompt_ids"].tolist()
    rows = expected.get("prompt_rows", np.zeros((0, columns.shape[1] - 1), np.int64))
    assert np.array_equal(audio_rows(columns), rows)


@pytest.mark.parametrize(("layout", "generation", "name"), LAYOUTS)
def test_logits_after_forced_rows_are_upstreams(request, layout: str, generation: int, name: str) -> None:
    family, expected = request.getfixturevalue(layout), golden(generation, name)
    columns, forced = whole(family.prompt(name), generation), expected["forced_rows"]
    rows = np.concatenate([columns, np.concatenate([np.zeros((len(forced), 1), np.int64), forced], axis=1)])
    harness = TalkerHarness(family.talker, positions=512)
    harness.table.join([SlotRow(slot=0, pages=harness._pages[0])])
    given, positions = torch.from_numpy(rows)[None], torch.arange(len(rows))[None]
    backend = PagedAttention(harness.kv[0], harness.rows(0), positions)
    hidden = family.talker.net.run(family.talker.net.embed(given), positions, backend, is_audio(given))
    logits = family.talker.net.logits(hidden[0, len(columns) - 1 :]).view(expected["forced_logits"].shape).numpy()
    spread = expected["forced_logits"].std()
    assert np.abs(logits - expected["forced_logits"]).max() < 1e-4 * spread


def generate(family: Family, prompt: HiggsPrompt, most: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """The rows and frames of a greedy request of at most so many rows, and whether it ended by itself."""
    pattern = family.talker.pattern
    harness = TalkerHarness(family.talker, positions=512)
    harness.join([0], [prompt], GREEDY)
    rows = audio_rows(prompt.last).tolist()
    frames: list[list[int]] = []
    while len(rows) < most:
        count = int(harness.state.delay.count[0])
        step = harness.step(0)
        rows.append(harness.state.delay.rows[0, :, count % pattern.books].tolist())
        frames += step.frames[step.emitted].tolist()
        if step.stopped[0]:
            return np.array(rows), np.array(frames), True
    return np.array(rows), np.array(frames), False


@pytest.mark.parametrize(("layout", "generation", "name"), LAYOUTS)
def test_greedy_rows_and_frames_are_upstreams(request, layout: str, generation: int, name: str) -> None:
    family, expected, told = request.getfixturevalue(layout), golden(generation, name), case(generation, name)
    rows, frames, ended = generate(family, family.prompt(name), told["max_new_rows"])
    assert np.array_equal(rows, expected["greedy_rows"])
    assert np.array_equal(frames, expected["frames"])
    assert ended == (told["ends"] == "end rows")


@pytest.mark.parametrize("name", [name for name in names(2) if "ras_rows" in golden(2, name)])
def test_a_row_is_drawn_again_when_and_from_what_upstream_draws_it_again(v2: Family, name: str, monkeypatch) -> None:
    """The goldens take the second largest raw logit where upstream draws."""
    real = v2.talker._again

    def second_largest(noise, slots, state) -> Repetition:
        drawn = real(noise, slots, state)
        greedy = Settings(torch.zeros(len(slots)), drawn.settings.top_k, drawn.settings.top_p)
        return Repetition(drawn.recent, drawn.slots, drawn.limit, greedy, drawn.noise, raw=True, other=True)

    monkeypatch.setattr(v2.talker, "_again", second_largest)
    expected = golden(2, name)["ras_rows"]
    prompt = v2.prompt(name, options={"ras_limit": 2, "ras_window": 7})
    rows, _, _ = generate(v2, prompt, len(expected))
    assert np.array_equal(rows, expected)
    assert not np.array_equal(rows, golden(2, name)["greedy_rows"][: len(rows)])


def test_filtered_probabilities_are_upstreams() -> None:
    logits, expected = (torch.from_numpy(golden(3, "plain")[f"sample_{kind}"]) for kind in ("logits", "probs"))
    books = len(logits)
    settings = Settings(torch.full((books,), 0.8), torch.full((books,), 30), torch.full((books,), 0.8))
    torch.testing.assert_close(probabilities(logits, settings), expected, rtol=0, atol=1e-6)


def test_the_end_rule_of_v3_is_upstreams(v3: Family) -> None:
    machine = golden(3, "machine")
    delay = Delay(v3.talker.pattern, torch.device("cpu"))
    state, slots = delay.state(1), torch.tensor([0])
    delay.begin(slots, state)
    rows, stopped = [], False
    for best in torch.from_numpy(machine["argmax"]):
        assert not stopped
        step = delay.advance(best[None], slots, state)
        rows += step.row.tolist()
        stopped = bool(step.stopped[0])
        if stopped:
            break
    assert stopped
    assert rows == machine["rows"].tolist()
