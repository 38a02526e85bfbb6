"""T3 says what upstream's says: the same prompt rows, logits and tokens, and the same probabilities."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.models.chatterbox.spec import ChatterboxOptions
from rhapsode.models.chatterbox.t3.prompt import T3Prompt
from rhapsode.models.chatterbox.t3.sizes import START
from rhapsode.types import SpeechRequest
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


@pytest.mark.parametrize("name", CASES)
def test_logits_under_forced_tokens_are_upstreams(families: dict[str, Family], name: str) -> None:
    family, arrays = families[CASES[name]["kind"]], golden(name)
    forced, columns = arrays["forced"], torch.from_numpy(arrays["columns"])
    weight = CASES[name]["cfg_weight"]
    wanted = arrays["logits"][0]
    if len(arrays["logits"]) == 2:
        wanted = wanted + weight * (wanted - arrays["logits"][1])
    found = [scores[0, columns].numpy() for scores in walk(family, prompt_of(family, name), forced)]
    np.testing.assert_allclose(found, wanted, atol=1e-4 * float(arrays["logits"].std()))


def walk(family: Family, prompt: T3Prompt, tokens: np.ndarray):
    """Yields the scores before each of these tokens, which are said whatever the scores are."""
    stage, talker = TalkerHarness(family.talker, positions=512), family.talker
    stage.join([0], [prompt])
    for i, token in enumerate(tokens):
        rows = stage.rows(0)
        yield talker.scores(rows, stage.state)
        stage.state.next[0] = talker.net.embed_speech(torch.tensor([int(token)]), torch.tensor([i + 1]))[0]
        stage.table.advance(rows.slots)
