"""The kernel draws what the reference draws: the same rules, the same noise, the same ids."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.embedding import frame_sum, frame_sum_reference
from rhapsode.nn.kernels.sampling import NOTHING, Repetition, Rules, Settings, TopP
from rhapsode.nn.sampling import Gumbel, draw, together

SIZES = [100, 40]
WISHES = {
    "all": (0, 1.0),
    "top-k": (5, 1.0),
    "top-k beyond": (1000, 1.0),
    "top-p": (0, 0.8),
    "hardly any": (0, 1e-6),
    "nothing": (0, 0.0),
    "both": (20, 0.7),
}


def drawn(
    mode: kernels.Mode,
    device,
    logits: Tensor,
    settings: Settings,
    book: int,
    rules: Rules | None = None,
    again: dict | None = None,
):
    """Samples from codebook `book`; `again` has the fields of a `Repetition` beside its noise."""
    batch = len(logits)
    seeds = torch.arange(batch, device=device) * 2**40 + 12345
    steps = torch.arange(batch, device=device) % 5
    with kernels.use(mode):
        noise = Gumbel([*SIZES, *SIZES], device)(seeds, steps)
        repetition = Repetition(noise=noise[book + len(SIZES)], **again) if again else None
        return draw(logits, settings, noise[book], rules=rules, repetition=repetition)


def settings(device, batch: int, temperature: float, top_k: int, top_p: float) -> Settings:
    return Settings(
        torch.full((batch,), temperature, device=device),
        torch.full((batch,), top_k, device=device),
        torch.full((batch,), top_p, device=device),
    )


@pytest.mark.parametrize(("top_k", "top_p"), WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_the_same_ids(device, top_k: int, top_p: float, temperature: float, ties: bool) -> None:
    logits = torch.randn(6, SIZES[1], device=device) * 2
    if ties:
        logits = logits.mul(2).round().bfloat16()
    asked = settings(device, 6, temperature, top_k, top_p)
    found, expected = (drawn(mode, device, logits, asked, 1) for mode in ("always", "off"))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("rule", [TopP.THROUGH, TopP.BELOW])
@pytest.mark.parametrize(("top_k", "top_p"), WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_the_same_ids_by_rank(device, rule: TopP, top_k: int, top_p: float, temperature: float, ties: bool) -> None:
    logits = torch.randn(6, SIZES[1], device=device) * 2
    if ties:
        logits = logits.mul(2).round().bfloat16()
    asked = replace(settings(device, 6, temperature, top_k, top_p), rule=rule)
    found, expected = (drawn(mode, device, logits, asked, 1) for mode in ("always", "off"))
    assert torch.equal(found, expected)


FAMILIES = {
    "fish": ((0.8, 30, 0.8, TopP.BELOW), (1.0, 30, 0.9, TopP.BELOW), {}),
    "higgs": ((0.7, 0, 0.95, TopP.AFTER_TOP_K), (1.0, 0, 1.0, TopP.AFTER_TOP_K), {"raw": True}),
    "cosyvoice": ((1.0, 25, 0.8, TopP.THROUGH), (1.0, 0, 1.0, TopP.AFTER_TOP_K), {"other": True}),
}


@pytest.mark.parametrize(("first", "second", "how"), FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("limit", [1, 2])
def test_rows_that_repeat_themselves_draw_again(device, first, second, how, limit: int) -> None:
    batch, width = 24, SIZES[0]
    logits = torch.randn(batch, width, device=device) * 3
    ids = torch.arange(width, device=device)
    zeros = torch.zeros(batch, dtype=torch.int64, device=device)
    rules = Rules(
        torch.zeros(batch, width, dtype=torch.bool, device=device), zeros, zeros + 1.0, ids % 7 == 0, ids < 0, zeros, 0
    )
    asked = replace(settings(device, batch, *first[:3]), rule=first[3])
    once = drawn("off", device, logits, asked, 0, rules)
    recent = torch.full((batch, 7, 3), NOTHING, device=device)  # of three codebooks: the middle one is read
    recent[:, 2, 1] = recent[:, 5, 1] = once
    recent[::2, 2, 1] = NOTHING
    again = {
        "recent": recent[..., 1],
        "slots": torch.arange(batch, device=device),
        "limit": torch.full((batch,), limit, device=device) * (torch.arange(batch, device=device) % 3 > 0),
        "settings": replace(settings(device, batch, *second[:3]), rule=second[3]),
        **how,
    }
    found, expected = (drawn(mode, device, logits, asked, 0, rules, again) for mode in ("always", "off"))
    assert torch.equal(found, expected)
    kept = (torch.arange(batch, device=device) % 3 == 0) | (limit == 2) & (torch.arange(batch, device=device) % 2 == 0)
    assert torch.equal(found[kept], once[kept])
    assert (found != once).any()


def test_rows_have_settings_of_their_own(device) -> None:
    logits = torch.randn(6, SIZES[0], device=device) * 3
    asked = Settings(
        torch.tensor([0.0, 0.5, 1.0, 2.0, 0.9, 0.9], device=device),
        torch.tensor([0, 3, 80, 0, 1, 50], device=device),
        torch.tensor([1.0, 1.0, 0.5, 0.9, 1.0, 1.0], device=device),
    )
    assert torch.equal(drawn("always", device, logits, asked, 0), drawn("off", device, logits, asked, 0))


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_penalties_and_bans(device, temperature: float) -> None:
    batch, width = 10, SIZES[0]
    logits = torch.randn(batch, width, device=device)
    ids = torch.arange(width, device=device)
    rules = Rules(
        history=torch.rand(12, width, device=device) < 0.5,
        slots=torch.randperm(12, device=device)[:batch],
        penalty=torch.linspace(0.5, 4.0, batch, device=device),
        banned=ids >= 60,
        late=ids < 30,
        steps=torch.arange(batch, device=device) % 5,
        least_steps=2,
    )
    asked = settings(device, batch, temperature, 20, 1.0)
    found, expected = (drawn(mode, device, logits, asked, 0, rules) for mode in ("always", "off"))
    assert torch.equal(found, expected)
    assert (found < 60).all()
    assert (found[rules.steps < 2] >= 30).all()


def test_sums_of_embeddings(device) -> None:
    codes = torch.randint(-3, 9, (3, 4), device=device)
    first, others = torch.randn(9, 300, device=device), torch.randn(3, 9, 300, device=device)
    with kernels.use("always"):
        found = frame_sum(codes, first, others)
    torch.testing.assert_close(found, frame_sum_reference(codes, first, others), rtol=1e-6, atol=1e-6)


def test_codebooks_that_are_drawn_together_in_one_launch(device) -> None:
    batch, books, width = 3, 4, 40
    logits = torch.randn(batch * books, width, device=device) * 2
    asked, again = settings(device, batch, 0.9, 10, 0.9), settings(device, batch, 1.0, 0, 1.0)
    slots = torch.tensor([4, 0, 2], device=device)
    recent = torch.randint(width, (5 * books, 32), device=device)
    limit = torch.tensor([1, 0, 2], device=device)
    seeds, steps = torch.arange(batch, device=device) * 2**40 + 5, torch.arange(batch, device=device)
    found = []
    for mode in ("always", "off"):
        with kernels.use(mode):
            noise = Gumbel([width] * 2 * books, device)(seeds, steps)
            second = Repetition(recent, slots, limit, again, together(noise[books:]), raw=True)
            found.append(draw(logits, asked, together(noise[:books]), repetition=second))
    assert torch.equal(*found)
