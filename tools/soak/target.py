"""What every client of a soak needs: the server, the requests with known audio, a random generator, the ledger."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
from tools.soak.cases import Case
from tools.soak.ledger import Ledger, Violation
from tools.soak.served import Served

BUSY, UNAVAILABLE = 429, 503


@dataclass
class Target:
    served: Served
    cases: Sequence[Case]
    ledger: Ledger
    chance: Random
    numbers: itertools.count = field(default_factory=itertools.count)

    @property
    def http(self) -> aiohttp.ClientSession:
        return self.served.http

    def url(self, path: str) -> str:
        return f"{self.served.url}{path}"

    def case(self, **wanted: bool) -> Case:
        """Returns one of the cases with these properties."""
        return self.chance.choice([c for c in self.cases if all(getattr(c, k) == v for k, v in wanted.items())])

    def long_body(self) -> Mapping[str, Any]:
        """Returns a request for so much audio that it cannot wait unread anywhere."""
        text = "x" * 1500 if self.served.model == "dummy" else "The river runs past the old mill every day. " * 20
        return {"input": text, "seed": 7, "response_format": "pcm", "sample_rate": 192_000}


def refusal(status: int, data: bytes, *, allowed: Sequence[int]) -> str:
    """Returns the ending of a refused request; raises if its status is none of those allowed."""
    if status not in allowed:
        raise Violation(f"unexpected status {status}: {data[:300]!r}")
    return f"refused {status}"
