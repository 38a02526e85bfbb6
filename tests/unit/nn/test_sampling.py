"""Draws: the probabilities are those of the Hugging Face processors, and a draw follows them whoever is beside it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.nn.kernels.sampling import MAX_PARTIAL_K, NOTHING, Repetition, Rules, Settings, TopP, penalize
from rhapsode.nn.philox import uniform
from rhapsode.nn.sampling import Gumbel, draw, kept, probabilities, together

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INFO = json.loads((GOLDEN / "index.json").read_text())["sampling"]
NEVER = float("-inf")


def settings(batch: int, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Settings:
    return Settings(torch.full((batch,), temperature), torch.full((batch,), top_k), torch.full((batch,), top_p))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3


def gumbel(batch: int, width: int, seed: int = 0) -> Tensor:
    seeds = torch.arange(batch) + 1000 * seed
    return Gumbel([width], torch.device("cpu"))(seeds, torch.zeros(batch, dtype=torch.int64))[0]


# --- as upstream has it ---


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "sampling.npz"))


@pytest.mark.parametrize("length", INFO["history_lengths"])
@pytest.mark.parametrize("name", INFO["sets"])
def test_processed_probabilities_are_upstreams(golden: dict[str, np.ndarray], name: str, length: int) -> None:
    at, wish = f"{name}/{length}", INFO["sets"][name]
    scores = torch.from_numpy(golden[f"{at}/logits"])
    history = torch.zeros(scores.shape, dtype=torch.bool)
    drawn = torch.from_numpy(golden[f"{at}/history"]).long()
    history.scatter_(1, drawn, torch.ones_like(drawn, dtype=torch.bool))
    scores = penalize(scores, history, torch.full((3,), wish["repetition_penalty"]))
    if length < INFO["min_new_tokens"]:
        scores[:, -1] = NEVER  # the last column is the end
    found = probabilities(scores, settings(3, wish["temperature"], wish["top_k"], wish["top_p"]))
    np.testing.assert_allclose(found, golden[f"{at}/probabilities"], atol=2e-6)


@pytest.mark.parametrize("name", INFO["sets"])
def test_the_predictors_probabilities_are_upstreams(golden: dict[str, np.ndarray], name: str) -> None:
    wish = INFO["sets"][name]
    found = probabilities(
        torch.from_numpy(golden[f"{name}/predictor/logits"]),
        settings(3, wish["temperature"], wish["top_k"], wish["top_p"]),
    )
    np.testing.assert_allclose(found, golden[f"{name}/predictor/probabilities"], atol=2e-6)


# --- what is kept ---


def test_ids_that_tie_with_the_last_one_kept_stay() -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]])
    for partial_k in (None, torch.tensor(2)):
        assert kept(scores, settings(1, top_k=2), partial_k).tolist() == [[True, False, True, True, True, False]]


@pytest.mark.parametrize("width", [40, 500])
def test_a_partial_sort_keeps_what_a_full_sort_keeps(width: int) -> None:
    scores = random(6, width).round(decimals=1)  # with ties
    scores[:, ::7] = NEVER
    rows = Settings(torch.full((6,), 0.7), torch.tensor([0, 1, 2, 50, 64, 33]), torch.ones(6))
    assert rows.partial_k() == MAX_PARTIAL_K
    assert torch.equal(kept(scores, rows, rows.partial_k()) & (scores > NEVER), kept(scores, rows))


def test_a_large_top_k_or_any_top_p_needs_a_full_sort() -> None:
    assert settings(2, top_k=65).partial_k() == -1
    assert settings(2, top_k=50, top_p=0.9).partial_k() == -1
    assert settings(2).partial_k() == 0


def test_a_banned_id_is_never_drawn() -> None:
    scores = random(200, 8)
    scores[:, [1, 5]] = NEVER
    for wish in (settings(200), settings(200, top_k=7), settings(200, top_p=0.99)):
        drawn = draw(scores, wish, gumbel(200, 8), wish.partial_k())
        assert not {1, 5} & set(drawn.tolist())


def test_the_penalty_counts_once_and_pushes_down_both_signs() -> None:
    scores = torch.tensor([[2.0, -2.0, 2.0]])
    history = torch.tensor([[True, True, False]])
    assert penalize(scores, history, torch.tensor([2.0])).tolist() == [[1.0, -4.0, 2.0]]


# --- the draw ---


def test_temperature_zero_takes_the_best_whatever_else_is_asked() -> None:
    scores = random(50, 30)
    for wish in (settings(50, 0.0), settings(50, 0.0, 5), settings(50, 0.0, 5, 0.5)):
        assert torch.equal(draw(scores, wish, gumbel(50, 30), wish.partial_k()), scores.argmax(-1))


def test_among_equals_the_greedy_take_the_first() -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0]])
    for wish in (settings(1, 0.0), settings(1, 0.0, top_p=0.3)):
        assert draw(scores, wish, gumbel(1, 4), wish.partial_k()).tolist() == [1]


@pytest.mark.parametrize(
    "wish", [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.8, "temperature": 1.4}, {"top_k": 6, "top_p": 0.9}]
)
def test_draws_follow_the_probabilities(wish: dict[str, float]) -> None:
    count = 20_000
    scores = random(1, 12, seed=3).expand(count, -1)
    rows = settings(count, **wish)
    drawn = torch.bincount(draw(scores, rows, gumbel(count, 12), rows.partial_k()), minlength=12) / count
    expected = probabilities(scores[:1], settings(1, **wish))[0]
    assert (drawn - expected).abs().max() < 4 * (0.25 / count) ** 0.5
    assert not drawn[expected == 0].any()


def test_each_row_has_settings_of_its_own_and_no_effect_on_the_others() -> None:
    scores = random(4, 100)
    rows = Settings(torch.tensor([0.0, 0.5, 1.0, 2.0]), torch.tensor([0, 3, 80, 0]), torch.tensor([1.0, 1.0, 0.5, 0.9]))
    together = draw(scores, rows, gumbel(4, 100))
    for i in range(4):
        alone = Settings(rows.temperature[i : i + 1], rows.top_k[i : i + 1], rows.top_p[i : i + 1])
        assert draw(scores[i : i + 1], alone, gumbel(4, 100)[i : i + 1], alone.partial_k()) == together[i]


def test_noise_depends_on_seed_frame_codebook_and_id_alone() -> None:
    seeds, steps = torch.tensor([7, 2**62 + 5, 7]), torch.tensor([0, 3, 9])
    noise = Gumbel([20, 5, 8], torch.device("cpu"))(seeds, steps)
    assert [part.shape for part in noise] == [(3, 20), (3, 5), (3, 8)]
    for book, part in enumerate(noise):
        drawn = uniform(seeds, steps, book, part.shape[1])
        assert torch.equal(part, -(-drawn.log()).log())
    alone = Gumbel([20, 5, 8], torch.device("cpu"))(seeds[1:2], steps[1:2])
    assert all(torch.equal(a[0], b[1]) for a, b in zip(alone, noise, strict=True))


def test_a_tiny_change_of_the_scores_changes_no_draw() -> None:
    scores = random(2000, 64)
    rows = settings(2000, 0.9, 50)
    first = draw(scores, rows, gumbel(2000, 64), rows.partial_k())
    second = draw(scores + random(2000, 64, seed=1) * 1e-7, rows, gumbel(2000, 64), rows.partial_k())
    assert (first != second).sum() <= 1  # noise is each id's own: near-equal ids swapping ranks swaps nothing else


# --- filters by rank ---


def ranked(rule: TopP, top_p: float, top_k: int = 0, temperature: float = 1.0) -> Settings:
    return Settings(torch.tensor([temperature]), torch.tensor([top_k]), torch.tensor([top_p]), rule)


QUARTERS = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()


@pytest.mark.parametrize(
    ("rule", "top_p", "count"),
    [
        (TopP.THROUGH, 0.6, 2),  # the second id crosses, and is kept
        (TopP.BELOW, 0.6, 1),  # and is dropped
        (TopP.BELOW, 0.8, 2),
        (TopP.BELOW, 0.1, 1),  # the most likely one always stays
        (TopP.THROUGH, 0.9, 4),
        (TopP.BELOW, 0.9, 3),  # of two equals the first
        (TopP.BELOW, 1.0, 4),
    ],
)
def test_the_id_that_crosses_top_p_is_kept_or_dropped_as_the_rule_says(rule: TopP, top_p: float, count: int) -> None:
    assert kept(QUARTERS, ranked(rule, top_p)).tolist() == [[rank < count for rank in range(4)]]


def test_filters_by_rank_ignore_the_temperature_and_cut_ties() -> None:
    cold, hot = (kept(QUARTERS, ranked(TopP.BELOW, 0.8, temperature=t)) for t in (0.1, 5.0))
    assert torch.equal(cold, hot)
    assert kept(QUARTERS, ranked(TopP.BELOW, 1.0, top_k=3)).tolist() == [[True, True, True, False]]
    assert kept(QUARTERS, ranked(TopP.THROUGH, 1.0, top_k=1)).sum() == 1


def test_draws_by_rank_follow_the_probabilities() -> None:
    count = 20_000
    scores = random(1, 12, seed=3).expand(count, -1)
    rows = Settings(*(torch.full((count,), x) for x in (0.7, 6, 0.8)), TopP.BELOW)
    drawn = torch.bincount(draw(scores, rows, gumbel(count, 12), rows.partial_k()), minlength=12) / count
    expected = probabilities(scores[:1], ranked(TopP.BELOW, 0.8, 6, 0.7))[0]
    assert (drawn - expected).abs().max() < 4 * (0.25 / count) ** 0.5
    assert not drawn[expected == 0].any()


# --- a second draw for what repeats ---


def repetition(recent: list[list[int]], limit: int = 1, wish: Settings | None = None, **how: bool) -> Repetition:
    batch, width = len(recent), 12
    noise = gumbel(batch, width, seed=1)
    return Repetition(
        torch.tensor(recent), torch.arange(batch), torch.full((batch,), limit), wish or settings(batch), noise, **how
    )


def test_an_id_that_repeats_is_drawn_again_with_settings_of_its_own() -> None:
    scores = random(4, 12, seed=5)
    best = scores.argmax(-1)
    recent = [[int(best[0]), NOTHING], [NOTHING, NOTHING], [int(best[2]), int(best[2])], [NOTHING, int(best[3])]]
    greedy, rule = settings(4, 0.0), repetition(recent)
    found = draw(scores, greedy, gumbel(4, 12), repetition=rule)
    second = draw(scores, rule.settings, rule.noise)
    assert found.tolist() == [int(second[0]), int(best[1]), int(second[2]), int(second[3])]
    twice = draw(scores, greedy, gumbel(4, 12), repetition=repetition(recent, limit=2))
    assert twice.tolist() == [int(best[0]), int(best[1]), int(second[2]), int(best[3])]
    assert torch.equal(draw(scores, greedy, gumbel(4, 12), repetition=repetition(recent, limit=0)), best)


def test_the_second_draw_may_ignore_the_rules_or_avoid_the_repeated_id() -> None:
    count = 500
    scores = random(1, 12, seed=5).expand(count, -1)
    best = int(scores[0].argmax())
    banned = torch.arange(12) < 6
    never = torch.zeros(12, dtype=torch.bool)
    rules = Rules(
        torch.zeros(count, 12, dtype=torch.bool), torch.arange(count), torch.ones(count), banned, never,
        torch.zeros(count, dtype=torch.int64), 0,
    )  # fmt: skip
    recent = [list(range(12))] * count
    greedy, noise = settings(count, 0.0), gumbel(count, 12)
    by_rules = draw(scores, greedy, noise, rules=rules, repetition=repetition(recent))
    assert (by_rules >= 6).all()
    assert (draw(scores, greedy, noise, rules=rules, repetition=repetition(recent, raw=True)) < 6).any()
    assert (draw(scores, greedy, noise, repetition=repetition(recent)) == best).any()
    assert (draw(scores, greedy, noise, repetition=repetition(recent, other=True)) != best).all()


def test_second_draws_follow_the_probabilities_of_the_second_settings() -> None:
    count = 20_000
    scores = random(1, 12, seed=3).expand(count, -1)
    second = Settings(*(torch.full((count,), x) for x in (1.0, 8, 0.9)), TopP.BELOW)
    rule = repetition([list(range(12))] * count, wish=second)
    drawn = torch.bincount(draw(scores, settings(count, 0.0), gumbel(count, 12), repetition=rule), minlength=12) / count
    expected = probabilities(scores[:1], ranked(TopP.BELOW, 0.9, 8))[0]
    assert (drawn - expected).abs().max() < 4 * (0.25 / count) ** 0.5


# --- several codebooks at once ---


def test_codebooks_that_are_drawn_together_are_drawn_as_if_alone() -> None:
    batch, books, width = 3, 4, 12
    scores = random(batch * books, width, seed=9)
    rows = Settings(torch.tensor([0.0, 0.8, 1.3]), torch.tensor([0, 5, 3]), torch.tensor([1.0, 1.0, 0.7]))
    again = Settings(torch.ones(batch), torch.zeros(batch, dtype=torch.int64), torch.ones(batch))
    noise = Gumbel([width] * 2 * books, torch.device("cpu"))(torch.tensor([5, 6, 7]), torch.tensor([0, 1, 2]))
    slots, limit = torch.tensor([4, 0, 2]), torch.tensor([1, 0, 2])
    recent = torch.randint(width, (5, books, 6), generator=torch.Generator().manual_seed(1))
    both = Repetition(recent.flatten(0, 1), slots, limit, again, together(noise[books:]), raw=True)
    found = draw(scores, rows, together(noise[:books]), rows.partial_k(), repetition=both).view(batch, books)
    for book in range(books):
        alone = Repetition(recent[:, book], slots, limit, again, noise[books + book], raw=True)
        expected = draw(scores[book::books], rows, noise[book], rows.partial_k(), repetition=alone)
        assert found[:, book].tolist() == expected.tolist()
