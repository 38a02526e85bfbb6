"""The counter RNG is Philox 4x32-10, and its numbers depend on what they should and on nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.nn.philox import normal, philox, uniform

# The known answers that Random123 ships (kat_vectors): counter, key, words.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
SEEDS = st.integers(0, 2**63 - 1)


def words(text: str) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([int(word, 16)], dtype=torch.int64) for word in text.split())


def draw(seed: int, step: int = 0, codebook: int = 0, n: int = 8) -> torch.Tensor:
    return uniform(torch.tensor([seed]), torch.tensor([step]), codebook, n)[0]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_it_gives_the_known_answers(counter: str, key: str, answer: str) -> None:
    found = philox(words(counter), words(key))  # type: ignore[arg-type]
    assert " ".join(f"{int(word):08x}" for word in found) == answer


def test_many_counters_at_once_give_what_each_gives_alone() -> None:
    counters, keys, answers = ([words(row[i]) for row in KNOWN] for i in range(3))
    together = philox(
        tuple(torch.cat(column) for column in zip(*counters, strict=True)),  # type: ignore[arg-type]
        tuple(torch.cat(column) for column in zip(*keys, strict=True)),  # type: ignore[arg-type]
    )
    assert torch.equal(torch.stack(together, 1), torch.stack([torch.cat(answer) for answer in answers]))


def test_numbers_lie_strictly_between_zero_and_one() -> None:
    numbers = uniform(torch.arange(64), torch.arange(64), 3, 4096)
    assert numbers.dtype == torch.float32
    assert numbers.shape == (64, 4096)
    assert float(numbers.min()) > 0.0
    assert float(numbers.max()) < 1.0


@given(seeds=st.lists(SEEDS, min_size=1, max_size=6), step=st.integers(0, 2**31), codebook=st.integers(0, 63))
def test_neighbours_in_a_batch_change_nothing(seeds: list[int], step: int, codebook: int) -> None:
    steps = [step + i for i in range(len(seeds))]
    batch = uniform(torch.tensor(seeds), torch.tensor(steps), codebook, 5)
    for row, seed, own in zip(batch, seeds, steps, strict=True):
        assert torch.equal(row, draw(seed, own, codebook, 5))


@given(seed=SEEDS, n=st.integers(1, 32))
def test_asking_for_more_numbers_does_not_change_the_first_ones(seed: int, n: int) -> None:
    assert torch.equal(draw(seed, n=n), draw(seed, n=32)[:n])


@given(seed=SEEDS)
def test_another_seed_frame_or_codebook_gives_other_numbers(seed: int) -> None:
    drawn = [draw(seed), draw(seed ^ 1), draw(seed, step=1), draw(seed, codebook=1)]
    assert len({tuple(numbers.tolist()) for numbers in drawn}) == len(drawn)


@given(seed=SEEDS, bit=st.integers(0, 62))
def test_every_bit_of_a_seed_matters(seed: int, bit: int) -> None:
    assert not torch.equal(draw(seed), draw(seed ^ (1 << bit)))


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["index", "seed", "frame", "codebook"])
def test_numbers_are_spread_evenly_along_every_axis(axis: str) -> None:
    n = 20_000
    many, one = torch.arange(n), torch.zeros(n, dtype=torch.int64)
    numbers = {
        "index": lambda: draw(7, n=n),
        "seed": lambda: uniform(many, one, 0, 1)[:, 0],
        "frame": lambda: uniform(one + 7, many, 0, 1)[:, 0],
        "codebook": lambda: torch.cat([draw(7, codebook=book, n=1) for book in range(2000)]),
    }[axis]()
    ordered = numbers.sort().values.double()
    count = len(ordered)
    ideal = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    assert float((ordered - ideal).abs().max()) < 1.63 / count**0.5  # Kolmogorov-Smirnov at 1 %


def test_normal_numbers_are_normal_and_repeat() -> None:
    seeds, steps = torch.tensor([3, 2**40 + 1, 3]), torch.tensor([0, 7, 1])
    drawn = normal(seeds, steps, 0, 20_000)
    assert drawn.shape == (3, 20_000)
    assert float(drawn.mean(1).abs().max()) < 0.03
    assert float((drawn.std(1) - 1).abs().max()) < 0.03
    assert 3.5 < float(drawn.abs().max()) < 6.5
    assert torch.equal(normal(seeds[1:2], steps[1:2], 0, 20_000), drawn[1:2])
    assert not torch.equal(drawn[0], drawn[2])


@given(seed=SEEDS, n=st.integers(1, 33))
def test_any_count_of_normal_numbers_can_be_drawn(seed: int, n: int) -> None:
    seeds, steps = torch.tensor([seed, seed]), torch.tensor([2, 5])
    drawn = normal(seeds, steps, 1, n)
    assert drawn.shape == (2, n)
    assert bool(drawn.isfinite().all())
    even = normal(seeds, steps, 1, n + n % 2)
    assert torch.equal(drawn, even[:, :n])  # an odd count drops the last number of the even one
