"""Training limited by time: a run has a number of minutes, and schedules depend on the elapsed share of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn


class Clock:
    def __init__(self, minutes: float) -> None:
        self._begun = time.monotonic()
        self._seconds = 60 * minutes

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def share(self) -> float:
        """The elapsed share of the run, 0 to 1."""
        return min(1.0, self.elapsed / self._seconds)

    def ticks(self) -> Iterator[int]:
        """Yields step numbers until the time is over."""
        step = 0
        while self.share < 1:
            yield step
            step += 1


class Optimiser:
    """AdamW with a learning rate on the device, so that a captured step can read it."""

    def __init__(self, parameters: list[nn.Parameter], betas: tuple[float, float], decay: float, clip: float) -> None:
        self._parameters, self._clip = parameters, clip
        on_gpu = parameters[0].is_cuda
        self._rate = torch.zeros((), device=parameters[0].device)
        self._adam = torch.optim.AdamW(
            parameters, lr=self._rate, betas=betas, weight_decay=decay, fused=on_gpu, capturable=on_gpu
        )

    def set_rate(self, rate: float) -> None:
        self._rate.fill_(rate)

    def descend(self, loss: Tensor) -> Tensor:
        """Makes one optimiser step; returns the gradient norm."""
        self._adam.zero_grad(set_to_none=True)
        loss.backward()
        size = nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self._adam.step()
        return size.detach()


class Captured:
    """A step as one CUDA graph, captured after a few warm-up steps; eager on a CPU and where capture fails.

    Steps that never run at the same time can share a memory `pool`.
    """

    def __init__(self, step: Callable[[], None], device: torch.device, pool: Any = None) -> None:
        self._step, self._pool = step, pool
        self._warm_ups = 3 if device.type == "cuda" else -1
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif self._warm_ups:
            self._warm_ups -= 1
            self._beside()
        else:
            self._capture()

    def _capture(self) -> None:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                self._step()
        except RuntimeError as error:
            print(f"not captured: {error}", flush=True)
            self._warm_ups = -1
            return
        self._graph = graph
        graph.replay()

    def _beside(self) -> None:
        """Runs the step on a side stream, as capture does."""
        if self._warm_ups < 0:
            self._step()
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)


class Averages:
    """Means of named losses since the last read, accumulated on the device."""

    def __init__(self, names: tuple[str, ...], device: torch.device) -> None:
        self._names = names
        self._sums = torch.zeros(len(names), device=device)
        self._count = torch.zeros((), device=device)

    def add(self, *values: Tensor) -> None:
        self._sums += torch.stack([value.detach().float() for value in values])
        self._count += 1

    def read(self) -> dict[str, float]:
        means = (self._sums / self._count.clamp(min=1)).tolist()
        self._sums.zero_()
        self._count.zero_()
        return dict(zip(self._names, means, strict=True))


def described(means: dict[str, float]) -> str:
    return "  ".join(f"{name} {mean:.3f}" for name, mean in means.items())
