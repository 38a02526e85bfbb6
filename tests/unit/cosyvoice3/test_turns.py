"""Text and speech in turns: as upstream lays them out, and better where upstream drops or repeats something."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from rhapsode.models.base import Following
from rhapsode.models.cosyvoice3.prompt import NEVER, CosyLayout, CosyPrompt, CosyScript, CosyVoice
from rhapsode.models.cosyvoice3.text import CosyText
from rhapsode.models.cosyvoice3.turns import Turns
from rhapsode.types import Sampling
from tiny.talking import TalkerHarness
from unit.cosyvoice3.asked import CODES, INDEX, KEPT, Family, Speaker, golden, rows_of, walk

CASES = INDEX["bistream"]
FILL = CODES + 3
AFTER_THE_END = 8  # forwards of upstream once the text has ended: seven tokens and the end


class Arriving:
    """A golden case whose text arrives token by token."""

    def __init__(self, family: Family, name: str, speech: int | None = None) -> None:
        self.arrays = golden(f"bistream-{name}")
        config = family.talker._config
        prompt_text = self.arrays["prompt_text_ids"].tolist()
        end = prompt_text.index(family.prepare._encode.end_of_prompt) + 1
        reference = self.arrays["prompt_speech_token"][:speech]
        voice = CosyVoice(reference, np.zeros((2 * len(reference), 80), np.float32), np.zeros(24, np.float32))
        script = CosyScript(prompt_text[:end], prompt_text[end:], reference, voice, 1000)
        self.layout = CosyLayout(config)
        self.text = CosyText(family.prepare._encode, 1000)
        self.turns = Turns(self.layout, script, self.text, config.speech.mix_ratio)
        self.opening = self.turns.opening()

    def arrive(self) -> None:
        for token in self.arrays["text_ids"].tolist():
            self.text.segments[0].tokens.append(token)
            yield from self.ready()
        self.text.close()
        yield from self.ready()

    def ready(self):
        while isinstance(following := self.turns.following(), CosyPrompt):
            yield following


def planned(name: str):
    """Upstream's rule: a walk, unless the plan forces a pick."""
    plan = {int(count): pick for count, pick in CASES[name]["plan"].items()}
    return lambda logits, picks: plan.get(len(picks), walk(logits, picks))


def speak(family: Family, case: Arriving, pick: Any, ending: int = 7) -> Speaker:
    """Speaks a case; in the last prompt so many tokens."""
    speaker = Speaker(family.talker, pick)
    speaker.speak(case.opening)
    for prompt in case.arrive():
        is_last = prompt.fill_after == NEVER
        assert speaker.speak(prompt, ending if is_last else None) != is_last
    return speaker


@pytest.mark.parametrize("name", ["zero_shot", "early_fill"])
def test_until_the_text_ends_inputs_tokens_and_logits_are_upstreams(family: Family, name: str) -> None:
    case = Arriving(family, name)
    spoken = speak(family, case, planned(name)).spoken
    lengths, ids = case.arrays["forward_lens"], case.arrays["forward_ids"].tolist()
    starts = np.cumsum([0, *lengths])
    upstream = [ids[a:b] for a, b in pairwise(starts)]
    count = len(upstream) - AFTER_THE_END
    assert spoken.inputs[:count] == upstream[:count]
    tokens = case.arrays["spoken_tokens"].tolist()[:-7]
    assert [pick for pick in spoken.picks[:count] if pick < CODES] == tokens
    every = len(lengths) // 12
    compared = range(0, count, every)
    found = np.stack([spoken.logits[i] for i in compared])[:, :KEPT]
    np.testing.assert_allclose(found, case.arrays["forward_logits"][: len(compared)], atol=1e-4)
    # Upstream feeds the last speech token again before the rest of the text. Its row is in the context already.
    assert spoken.inputs[count] == upstream[count][1:]


def test_the_schedule_of_turns_is_five_to_fifteen(family: Family) -> None:
    case = Arriving(family, "zero_shot")
    prompts = list(case.arrive())
    assert [prompt.fill_after for prompt in prompts] == [15 - 22 % 15, *[15] * (len(prompts) - 2), NEVER]
    assert all(prompt.max_frames == prompt.fill_after + 1 for prompt in prompts[:-1])
    assert [len(rows_of(prompt)) for prompt in prompts[1:-1]] == [5] * (len(prompts) - 2)
    assert case.turns.following() is None
    assert sum(prompt.max_frames for prompt in prompts[:-1]) - (len(prompts) - 1) + prompts[-1].max_frames <= 1000


def test_a_reference_of_whole_turns_is_followed_by_text_before_speech(family: Family) -> None:
    """Upstream speaks fifteen tokens for which there is no text."""
    case = Arriving(family, "multiple_of_block")
    first = next(case.arrive())
    rows, start = rows_of(first), family.talker.net.speech_start
    assert [row >= start for row in rows] == [False] * 5 + [True] * 15 + [False] * 5
    assert first.fill_after == 15


def test_a_text_too_short_for_the_turns_gets_the_layout_of_a_whole_text(family: Family) -> None:
    """Upstream drops the part of the reference that is not placed."""
    case = Arriving(family, "text_too_short")
    assert case.turns.following() is Following.NOT_YET
    (prompt,) = case.arrive()
    script = case.turns._script
    whole = case.layout.whole(script, case.arrays["text_ids"].tolist())
    assert [*rows_of(case.opening), *rows_of(prompt)] == whole[:, 0].tolist()
    assert prompt.continues
    assert prompt.least_frames == 2 * len(case.arrays["text_ids"])


def test_nothing_is_spoken_from_an_instruction_alone(family: Family) -> None:
    """Upstream begins before any text has arrived."""
    case = Arriving(family, "instruct_no_prompt_speech")
    assert case.turns.following() is Following.NOT_YET
    case.text.segments[0].tokens += [1, 2, 3, 4]
    assert case.turns.following() is Following.NOT_YET
    case.text.segments[0].tokens.append(5)
    prompt = case.turns.following()
    assert rows_of(prompt) == [1, 2, 3, 4, 5]
    assert prompt.fill_after == 15


def test_no_text_at_all_is_no_speech(family: Family) -> None:
    case = Arriving(family, "zero_shot")
    case.text.close()
    assert case.turns.following() is None


# --- what the talker may draw ---


def prompt_of(family: Family, **fields: Any) -> CosyPrompt:
    rows = golden("llm-sft")["lm_input"][:, None]
    given = {"max_frames": 100, "length": len(rows) - 1, "content": rows[:-1], "last": rows[-1:]}
    return CosyPrompt(**{**given, **fields})


def drawn(family: Family, prompt: CosyPrompt, seed: int, most: int = 60) -> list[int]:
    stage = TalkerHarness(family.talker, positions=256)
    stage.join([0], [prompt], Sampling(temperature=3.0, top_k=0, top_p=1.0), seeds=[seed])  # nearly anything
    tokens = []
    for i in range(most):
        step = stage.step(0)
        tokens.append(int(stage.state.recent[0, i % 10]))
        if bool(step.stopped):
            break
    return tokens


def test_a_turn_ends_with_the_fill_token_and_nothing_else(family: Family) -> None:
    ends = [drawn(family, prompt_of(family, fill_after=12), seed) for seed in range(6)]
    assert {tokens[-1] for tokens in ends} == {FILL}
    assert max(len(tokens) for tokens in ends) <= 13
    assert all(token < CODES for tokens in ends for token in tokens[:-1])


def test_speech_does_not_end_before_its_least_length(family: Family) -> None:
    lengths = [len(drawn(family, prompt_of(family, least_frames=20), seed)) for seed in range(4)]
    assert min(lengths) > 20
    free = [len(drawn(family, prompt_of(family, least_frames=20, enforced=False), seed)) for seed in range(4)]
    assert min(free) <= 20


def test_a_step_after_the_end_of_a_turn_leaves_no_trace(family: Family) -> None:
    """On a GPU the host learns of the end one step late."""
    late, prompt = [], prompt_of(family, fill_after=3)
    for extra in (False, True):
        stage = TalkerHarness(family.talker, positions=256)
        stage.join([0], [prompt], seeds=[5])
        for _ in range(4):
            step = stage.step(0)
        assert bool(step.stopped)
        if extra:
            stage.step(0)
            stage.table.position[0] -= 1
            stage.table.step[0] -= 1
        more = CosyPrompt(50, length=1, content=np.array([[7]]), last=np.array([[8]]), continues=True, least_frames=50)
        base = int(stage.table.position[0])
        family.talker.prefill([more], [(0, 1, base)], stage.rows(0), stage.state)
        stage.table.position[0] += 1
        late.append([int(stage.step(0).frames[0, 0]) for _ in range(12)])
    assert late[0] == late[1]


def test_silence_is_heard_five_tokens_long_and_seen_whole(family: Family) -> None:
    tokens = [1, 2, 28, 29, 55, 1, 2, 40, 1, 2]
    stage = TalkerHarness(family.talker, positions=256)
    stage.join([0], [prompt_of(family)])
    real, heard = family.talker._draw, []
    try:
        for token in tokens:
            family.talker._draw = lambda *_, token=token: torch.tensor([token])
            heard.append(bool(stage.step(0).emitted))
    finally:
        family.talker._draw = real
    assert heard == [True] * 5 + [False] * 2 + [True] * 3
    assert stage.state.recent[0].tolist() == tokens
