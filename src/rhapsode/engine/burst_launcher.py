"""Launches prompts of about the same length on the worker of a burst stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.buckets import length_step
from rhapsode.device.launch_times import LaunchTimes
from rhapsode.device.sections import section
from rhapsode.device.upload import upload
from rhapsode.engine.burst_batch import Candidate, burst_batch, rows_of
from rhapsode.engine.clock import clock_s
from rhapsode.engine.launches import Launch
from rhapsode.engine.row import BurstRow
from rhapsode.models.base import Burst, traits_of

LONGEST_S = 0.05
"""Launches of several prompts are kept shorter than this, since a new listener waits for those that are in flight."""


@dataclass(frozen=True)
class BurstLaunch(Launch):
    """A launch of the prompts of several requests, and what it makes of each."""

    rows: Sequence[BurstRow] = ()
    made: Sequence[Any] = ()
    """Frames, or what the first launch of a worker that measures keeps for the second one."""
    measures: bool = False
    started_s: float = 0.0


class BurstLauncher:
    """Decides how many prompts a launch has and what they are padded to, and calls the worker."""

    def __init__(self, worker: Burst, deployment: Deployment, device: torch.device) -> None:
        slots = deployment.limits.slots
        self._worker, self._traits = worker, traits_of(worker)
        self._deployment, self._device = deployment, device
        self._most_rows = min(self._traits.most_rows or slots, slots)
        self._times = {measures: LaunchTimes(device) for measures in (False, True)}

    @property
    def in_flight(self) -> int:
        """How many launches the device has not ended."""
        return sum(times.in_flight for times in self._times.values())

    def choose(self, candidates: Sequence[Candidate]) -> list[int]:
        """Returns the indices of the prompts in the next launch."""
        most = self._worker.launch_size
        if candidates and not self._deployment.deterministic:
            first = min(candidates, key=lambda candidate: candidate.left_s)
            in_time = self._times[self._measures(first.is_measured)].most(LONGEST_S)
            most = most if in_time is None else min(most, in_time)
        return burst_batch(candidates, self._most_rows, most, self._deployment.chunks.comfort_s)

    def __call__(self, rows: Sequence[BurstRow]) -> tuple[BurstLaunch, Tensor]:
        """Launches the prompts of these rows, and returns the launch and what the host needs of it.

        After `measure` that is the durations, `[B, positions]`. After `burst` it is the number of frames to be heard of
        each prompt, `[B]`, or -1 where a frame has numbers that are not finite.
        """
        measures, started_s = self._measures(rows[0].measured is not None), clock_s()
        length, padded = self._padded(rows)
        seeds = upload(np.array([(row.job.seed + row.draw) % 2**63 for row in padded]), self._device)
        work, count = [row.work for row in padded], len(rows)
        with section("burst"), self._times[measures].measured(length * len(padded)):
            made, values = self._measure(work, seeds, length) if measures else self._burst(work, seeds, length)
        slots = np.array([row.slot for row in rows])
        return BurstLaunch(slots[:, None], (length,), rows, made[:count], measures, started_s), values[:count]

    def _measures(self, is_measured: bool) -> bool:
        """Returns whether the next launch of a prompt is one that measures."""
        return self._traits.measure is not None and not is_measured

    def _padded(self, rows: Sequence[BurstRow]) -> tuple[int, Sequence[BurstRow]]:
        """Returns the length of a launch, and its rows.

        On a GPU lengths are rounded up, so that few shapes occur. In deterministic mode every launch of a length has
        the same shape: missing rows are filled with the last one, whose further results are not read.
        """
        longest = max(row.size for row in rows)
        if not self._deployment.deterministic:
            return longest if self._device.type == "cpu" else length_step(longest), rows
        length = length_step(longest)
        missing = rows_of(length, self._most_rows, self._worker.launch_size) - len(rows)
        return length, [*rows, *[rows[-1]] * missing]

    def _measure(self, work: Sequence[Any], seeds: Tensor, length: int) -> tuple[Sequence[Any], Tensor]:
        assert self._traits.measure is not None
        found = self._traits.measure(work, seeds, length)
        if len(found.kept) != len(work) or found.durations.dim() != 2 or len(found.durations) != len(work):
            raise TypeError(f"'measure' must return {len(work)} rows of durations, and something kept for each")
        return found.kept, found.durations

    def _burst(self, work: Sequence[Any], seeds: Tensor, length: int) -> tuple[Sequence[Tensor], Tensor]:
        made, shape = self._worker.burst(work, seeds, length), tuple(self._worker.frame_shape)
        found = [tuple(frames.shape) for frames in made]
        if len(found) != len(work) or any(one[1:] != shape for one in found):
            raise TypeError(f"'burst' must return {len(work)} tensors of frames {shape}, not {found}")
        finite = torch.stack([torch.isfinite(frames).all() for frames in made])
        return made, torch.where(finite, self._heard(work, made), -1)

    def _heard(self, work: Sequence[Any], made: Sequence[Tensor]) -> Tensor:
        if self._traits.heard is not None:
            return self._traits.heard(work, made)
        return upload(np.array([len(frames) for frames in made]), self._device)
