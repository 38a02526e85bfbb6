"""What streaming steps have in common, and a line of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from rhapsode.types import Samples


class Transform(Protocol):
    """Samples in, samples out: `write` returns what is ready, `close` what was held back."""

    def write(self, samples: Samples) -> Samples: ...

    def close(self) -> Samples: ...


class Chain:
    """Transforms in a row, as one."""

    def __init__(self, first: Transform, *rest: Transform) -> None:
        self._first, self._rest = first, rest

    def write(self, samples: Samples) -> Samples:
        samples = self._first.write(samples)
        for step in self._rest:
            samples = step.write(samples)
        return samples

    def close(self) -> Samples:
        tail = self._first.close()
        for step in self._rest:
            tail = np.concatenate((step.write(tail), step.close()), axis=1)
        return tail
