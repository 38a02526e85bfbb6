"""The steps of a measurement, what each costs, and which of them fit into a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rhapsode.bench.quality.prompts import SpokenPrompt

CHARS_PER_S = 15.0
SPEED_ROUNDS = 2
SPEED_AUDIO_S = 4.2
START_S = 3.0
"""A guess of what it takes to load a model and to warm it up."""
SHARES = {"speed": 0.3, "beside": 0.2}
"""Which part of a budget these kinds may take; samples take the rest."""
BESIDE_TIMES = 40.0
"""A guess: how many times longer upstream and an eager engine take than ours does."""


@dataclass(frozen=True)
class MeasuringStep:
    """One measurement, kept under its key."""

    kind: str
    """`sample`, `speed` or `beside`."""
    key: str
    precision: str
    mode: str = ""
    split: str = ""
    prompt: SpokenPrompt | None = None
    seed: int = 0
    listeners: int = 0
    audio_s: float = 0.0
    """A guess of how much speech it makes."""


@dataclass(frozen=True)
class MeasuringPace:
    """What speech costs on this machine, measured with one sentence."""

    rtf: float
    heard_s: float
    """Seconds that the recogniser and the judges take for a sentence."""

    def cost_s(self, step: MeasuringStep) -> float:
        if step.kind == "sample":
            return step.audio_s * self.rtf + self.heard_s
        if step.kind == "speed":
            return START_S + step.audio_s * self.rtf
        return START_S + step.audio_s * self.rtf * BESIDE_TIMES


def sample_steps(
    precisions: Sequence[str],
    modes: Sequence[str],
    splits: Mapping[str, Sequence[SpokenPrompt]],
    dialogues: Mapping[str, Sequence[SpokenPrompt]],
    seed: int,
) -> list[MeasuringStep]:
    """Returns a step for each prompt, mode and precision, and one for each dialogue in the first precision. Any first
    part of the list has some of each."""
    wanted = [(precision, mode, split) for precision in precisions for mode in modes for split in splits]
    groups = [_group(*one, splits[one[2]], seed) for one in wanted]
    groups += [_group(precisions[0], "dialogue", split, prompts, seed) for split, prompts in dialogues.items()]
    return [step for row in zip_longest(*groups) for step in row if step is not None]


def _group(precision: str, mode: str, split: str, prompts: Sequence[SpokenPrompt], seed: int) -> list[MeasuringStep]:
    return [
        MeasuringStep(
            kind="sample",
            key=f"sample/{precision}/{mode}/{split}/{prompt.id}",
            precision=precision,
            mode=mode,
            split=split,
            prompt=prompt,
            seed=seed + number,
            audio_s=len(prompt.text) / CHARS_PER_S * (2 if mode == "dialogue" else 1),
        )
        for number, prompt in spread(prompts)
    ]


def spread(prompts: Sequence[SpokenPrompt]) -> list[tuple[int, SpokenPrompt]]:
    """Returns prompts with their numbers in an order whose every beginning has prompts of all parts of the list."""
    count, bits = len(prompts), max(1, (len(prompts) - 1).bit_length())
    order = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits))
    return [(number, prompts[number]) for number in order if number < count]


def speed_steps(precisions: Sequence[str], listeners: Sequence[int]) -> list[MeasuringStep]:
    return [
        MeasuringStep(
            kind="speed",
            key=f"speed/{precision}/{level}",
            precision=precision,
            listeners=level,
            audio_s=SPEED_AUDIO_S * level * (SPEED_ROUNDS + 1),
        )
        for level in sorted(listeners)
        for precision in precisions
    ]


def fitting(
    steps: Iterable[MeasuringStep], pace: MeasuringPace, budget_s: float | None
) -> tuple[list[MeasuringStep], list[MeasuringStep]]:
    """Returns the steps that fit into a budget, and those that do not. Each kind has a share of it, and the first step
    of every group is taken."""
    steps = list(steps)
    if budget_s is None:
        return steps, []
    kinds = {step.kind for step in steps}
    shares = {kind: share for kind, share in SHARES.items() if kind in kinds}
    shares["sample"] = 1.0 - sum(shares.values())
    spent = dict.fromkeys(shares, 0.0)
    begun: set[tuple[str, str, str, str]] = set()
    kept, left = [], []
    for step in steps:
        cost, group = pace.cost_s(step), (step.kind, step.precision, step.mode, step.split)
        if group not in begun or spent[step.kind] + cost <= shares[step.kind] * budget_s:
            kept.append(step)
            begun.add(group)
            spent[step.kind] += cost
        else:
            left.append(step)
    return kept, left
