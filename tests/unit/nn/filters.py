"""The probabilities that a draw is to have, by the rules in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rhapsode.nn.kernels.sampling import Rules, SamplingOrder, Settings
from rhapsode.nn.sampling import Gumbel

NEVER = float("-inf")
MIXED = [2.0, -1.0, 0.5, 1.5, NEVER, 0.4, -3.0, 1.9, 0.0, -0.6, 1.1, -2.0]
TIED = [1.0, 2.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0]
ALONE = [NEVER, NEVER, NEVER, 0.3, NEVER, NEVER]

Draw = Callable[[Tensor, Settings, Rules, Tensor], Tensor]
"""Draws one id per row of scores `[B, V]` with these settings, rules and seeds `[B]`."""


@dataclass(frozen=True)
class Filtered:
    """Scores of one row, and what is asked of them."""

    scores: list[float]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    order: SamplingOrder = SamplingOrder.MIN_P_LAST
    penalty: float = 1.0
    history: tuple[int, ...] = ()
    """Ids that were drawn before: the penalty is for them."""
    banned: tuple[int, ...] = ()

    def settings(self, rows: int) -> Settings:
        return Settings(
            torch.full((rows,), self.temperature),
            torch.full((rows,), self.top_k),
            torch.full((rows,), self.top_p),
            min_p=torch.full((rows,), self.min_p),
            order=self.order,
        )

    def rules(self, rows: int) -> Rules:
        history, banned = torch.zeros(2, len(self.scores), dtype=torch.bool)
        history[list(self.history)] = banned[list(self.banned)] = True
        zeros = torch.zeros(rows, dtype=torch.int64)
        penalty = torch.full((rows,), self.penalty)
        return Rules(history[None], zeros, penalty, banned, torch.zeros_like(banned), zeros, 0)

    def probabilities(self) -> np.ndarray:
        plain = np.array(self.scores)
        plain[list(self.banned)] = NEVER
        scores = plain.copy()
        for i in self.history:
            scores[i] = plain[i] / self.penalty if plain[i] > 0 else plain[i] * self.penalty
        kept = self._kept(plain if self.order == SamplingOrder.PENALTY_LAST else scores)
        if self.temperature == 0:  # greedy: the first of the best
            return np.eye(len(scores))[np.where(kept, scores, NEVER).argmax()]
        odds = self._odds(np.where(kept, scores, NEVER))
        return odds / odds.sum()

    def _odds(self, scores: np.ndarray) -> np.ndarray:
        """The probabilities, relative to the highest."""
        return np.exp((scores - scores.max()) / (self.temperature or 1e-9))

    def _kept(self, scores: np.ndarray) -> np.ndarray:
        odds = self._odds(scores)
        kept = scores > NEVER
        if self.top_k:
            kept &= scores >= np.sort(scores)[-self.top_k]
        if self.order == SamplingOrder.MIN_P_FIRST:
            kept &= odds >= self.min_p
        return self._nucleus(odds, kept) & (odds >= self.min_p)

    def _nucleus(self, odds: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Drops the least likely ids, one after the other, as long as they add up to no more than 1 - p."""
        kept, total, dropped = kept.copy(), odds[kept].sum(), 0.0
        for i in sorted(np.flatnonzero(kept), key=lambda i: odds[i])[:-1]:
            dropped += odds[i] / total
            if self.top_p == 1 or dropped > 1 - self.top_p:
                break
            kept[i] = False
        return kept


CASES = {
    "off": Filtered(MIXED),
    "warm": Filtered(MIXED, 0.8, min_p=0.2),
    "after the temperature: hot": Filtered(MIXED, 2.0, min_p=0.2),
    "after the temperature: cold": Filtered(MIXED, 0.3, min_p=0.2),
    "greedy": Filtered(MIXED, 0.0, min_p=0.3),
    "greedy among equals": Filtered(TIED, 0.0, min_p=0.3),
    "equals stay or go together": Filtered(TIED, 1.0, min_p=0.3),
    "1 keeps the best": Filtered(MIXED, 0.9, min_p=1.0),
    "1 keeps all of the best": Filtered(TIED, 0.9, min_p=1.0),
    "all banned but one": Filtered(ALONE, 0.8, min_p=0.5),
    "top-k is stricter": Filtered(MIXED, 1.0, top_k=3, min_p=0.05),
    "top-k is wider": Filtered(MIXED, 1.0, top_k=9, min_p=0.4),
    "top-p is stricter": Filtered(MIXED, 1.2, top_p=0.5, min_p=0.05),
    "top-p is wider": Filtered(MIXED, 1.2, top_p=0.95, min_p=0.4),
    "all three": Filtered(MIXED, 1.5, top_k=7, top_p=0.9, min_p=0.3),
    **{
        f"{order.name}, {name}": replace(case, order=order)
        for order in SamplingOrder
        for name, case in {
            "equals": Filtered(TIED, 0.9, top_p=0.7, min_p=0.3),
            "all": Filtered(MIXED, 0.9, 6, 0.75, 0.4, penalty=1.8, history=(0, 1, 7), banned=(3,)),
            "greedy": Filtered(MIXED, 0.0, 2, min_p=0.5, penalty=3.0, history=(0, 7)),
            "one left": Filtered(ALONE, 0.8, 3, 0.9, 0.5, penalty=2.0, history=(3,)),
            "min-p 1": Filtered(TIED, 0.9, min_p=1.0, penalty=1.5, history=(1,)),
        }.items()
    },
}


def check(case: Filtered, draw: Draw, count: int) -> None:
    """Checks that each of `count` draws is what the case's probabilities and the noise make of it, and how often."""
    scores, expected = torch.tensor(case.scores).expand(count, -1).contiguous(), case.probabilities()
    seeds = torch.arange(count) * 2**33 + 5
    drawn = draw(scores, case.settings(count), case.rules(count), seeds).numpy()
    noise = Gumbel([len(expected)], torch.device("cpu"))(seeds, torch.zeros_like(seeds))[0]
    with np.errstate(divide="ignore"):
        assert (drawn == (np.log(expected) + np.asarray(noise)).argmax(-1)).all()
    found = np.bincount(drawn, minlength=len(expected)) / count
    np.testing.assert_array_less(np.abs(found - expected), 4.5 * np.sqrt(expected * (1 - expected) / count) + 1e-9)
