"""T3 says what upstream's says: the same prompt rows, logits and tokens, and the same probabilities."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.models.chatterbox.spec import ChatterboxOptions
from rhapsode.models.chatterbox.t3.prompt import T3Prompt
from rhapsode.models.chatterbox.t3.sizes import START
from rhapsode.models.chatterbox.t3.talker import LEAST_TOKENS
from rhapsode.nn.kernels.sampling import Settings
from rhapsode.nn.sampling import probabilities
from rhapsode.types import Sampling, SpeechRequest
from tiny.talking import TalkerHarness
from unit.chatterbox.asked import CASES, Family, golden

T3 = {"original": "original", "mtl": "multilingual", "turbo": "turbo"}


@pytest.fixture(scope="module")
def families(checkpoint: Path, turbo_checkpoint: Path) -> dict[str, Family]:
    """By the kind of a case. Ids that no request may draw can be drawn, since upstream's draws have some."""
    found = {kind: Family.open(turbo_checkpoint if kind == "turbo" else checkpoint, t3=t3) for kind, t3 in T3.items()}
    for family in found.values():
        family.talker.banned.zero_()
    return found


def prompt_of(family: Family, name: str) -> T3Prompt:
    """The prompt of a case. Upstream obeys control tokens that a user writes, so that ids are given."""
    case = CASES[name]
    turbo = case["kind"] == "turbo"
    options = {} if turbo else {key: case[key] for key in ("exaggeration", "cfg_weight")}
    ids = case["text_ids"] if turbo else case["text_ids"][1:-1]
    draft = family.prepare(SpeechRequest("Hello.", options=ChatterboxOptions(**options)))
    return family.encode([replace(draft, ids=ids)])[0]


@pytest.mark.parametrize("name", CASES)
def test_prompt_rows_are_upstreams(families: dict[str, Family], name: str) -> None:
    family = families[CASES[name]["kind"]]
    prompt, net, want = prompt_of(family, name), family.talker.net, golden(name)["rows"]
    content, voices = torch.from_numpy(prompt.content)[None], torch.from_numpy(prompt.voice_rows)[None]
    told = net.embed(content, voices)
    last = net.embed_speech(torch.tensor([START]), torch.tensor([0]))
    rows = [told] if len(want) == 1 else [told, net.embed_untold(content, told)]
    for row, wanted in zip(rows, want, strict=True):
        if CASES[name]["cfg_weight"] or row is told:  # where the second sequence has no weight, upstream fills it alike
            found = torch.cat((row[0], last))[:, ::4]
            np.testing.assert_allclose(found, wanted, atol=1e-5)


class Walk:
    """Says one token after the other, whatever the talker would draw."""

    def __init__(self, family: Family, name: str) -> None:
        case = CASES[name]
        self._talker, self._is_turbo = family.talker, case["kind"] == "turbo"
        given = ("temperature", "top_p", "repetition_penalty", *(("top_k",) if self._is_turbo else ("min_p",)))
        self._stage = TalkerHarness(family.talker, positions=512)
        self._stage.join([0], [prompt_of(family, name)], Sampling(**{key: case[key] for key in given}))
        self._said: list[int] = []
        self.scores = self._next()

    def say(self, token: int) -> None:
        talker, stage = self._talker, self._stage
        self._said.append(token)
        place = torch.tensor([len(self._said)])
        stage.state.next[0] = talker.net.embed_speech(torch.tensor([token]), place)[0]
        stage.table.advance(stage.rows(0).slots)
        self.scores = self._next()

    def probabilities(self) -> torch.Tensor:
        """The distribution of the next token, where ids may be drawn that no request may draw, and the end at once."""
        rows, history = self._stage.rows(0), self._stage.state.history
        history[0] = False
        history[0, self._penalised()] = True
        rules = self._talker.rules(torch.tensor([LEAST_TOKENS]), rows, self._stage.state)
        return probabilities(self.scores, Settings.of(rows, order=self._talker.order), rules)[0]

    def _penalised(self) -> list[int]:
        return self._said if self._is_turbo and self._said else [START, *self._said]

    def _next(self) -> torch.Tensor:
        return self._talker.scores(self._stage.rows(0), self._stage.state)


@pytest.mark.parametrize("name", CASES)
def test_logits_under_forced_tokens_are_upstreams(families: dict[str, Family], name: str) -> None:
    arrays, weight = golden(name), CASES[name]["cfg_weight"]
    wanted = arrays["logits"][0]
    if len(arrays["logits"]) == 2:
        wanted = wanted + weight * (wanted - arrays["logits"][1])
    walk, found = Walk(families[CASES[name]["kind"]], name), []
    for token in arrays["forced"]:
        found.append(walk.scores[0, torch.from_numpy(arrays["columns"])].numpy())
        walk.say(int(token))
    np.testing.assert_allclose(found, wanted, atol=1e-4 * float(arrays["logits"].std()))


@pytest.mark.parametrize("name", CASES)
def test_probabilities_after_penalty_and_filters_are_upstreams(families: dict[str, Family], name: str) -> None:
    arrays = golden(name)
    walk, steps = Walk(families[CASES[name]["kind"]], name), arrays["steps"].tolist()
    for step, token in enumerate(arrays["forced"]):
        if step in steps:
            found = walk.probabilities()
            assert found.nonzero()[:, 0].tolist() == sorted(arrays[f"ids_{step}"].tolist())
            np.testing.assert_allclose(
                found[torch.from_numpy(arrays[f"ids_{step}"])], arrays[f"probs_{step}"], atol=1e-5
            )
        walk.say(int(token))


@pytest.mark.parametrize("name", CASES)
def test_greedy_tokens_are_upstreams(families: dict[str, Family], name: str) -> None:
    walk, wanted = Walk(families[CASES[name]["kind"]], name), golden(name)["greedy"].tolist()
    found = []
    for _ in wanted:
        found.append(int(walk.probabilities().argmax()))
        walk.say(found[-1])
    assert found == wanted


def test_what_is_no_speech_cannot_be_drawn(checkpoint: Path, turbo_checkpoint: Path) -> None:
    for folder in (checkpoint, turbo_checkpoint):
        talker = Family.open(folder).talker
        allowed = (~talker.banned).nonzero()[:, 0].tolist()
        assert allowed == [*range(6561), 6562]
