"""A crowd of clients: each does one thing after the other, chosen at random, until its time is over."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random

import aiohttp
from tools.soak import chaos, listeners, offenders
from tools.soak.ledger import Violation
from tools.soak.target import Target

HANG_S = 900.0  # far more than any request may take, also on a busy machine
PROBE_EVERY_S = 0.25

Behaviour = Callable[[Target], Awaitable[str]]
CLIENTS: dict[Behaviour, int] = {
    listeners.listen: 10,
    listeners.listen_to_batch: 2,
    listeners.converse: 3,
    listeners.upload_and_delete: 3,
    listeners.look_around: 2,
    offenders.leave: 3,
    offenders.read_slowly: 2,
    offenders.never_read: 2,
    offenders.send_half: 1,
    offenders.send_nonsense: 3,
    offenders.upload_damage: 2,
    offenders.talk_nonsense: 1,
    offenders.vanish: 2,
}
TROUBLE: tuple[Behaviour, ...] = (chaos.jump_clock, chaos.fill_disk, chaos.freeze)


@dataclass
class Crowd:
    """Clients of one server; `round` lets them loose for some seconds and returns when all have ended."""

    target: Target
    size: int
    seed: int
    health_s: list[float] = field(default_factory=list)
    """How long `/health` took, asked several times a second."""
    rounds: int = 0

    async def round(self, seconds: float) -> None:
        self.rounds += 1
        until_s = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.size):
                chance = Random(f"{self.seed}/{self.rounds}/{number}")
                tasks.create_task(self._act(until_s, chance, None))
            for behaviour in TROUBLE:
                tasks.create_task(self._act(until_s, Random(f"{self.seed}/{self.rounds}/{behaviour}"), behaviour))
            tasks.create_task(self._probe(until_s))

    async def burst(self, size: int) -> None:
        """Uploads from many clients at once: it fills pools that grow on demand, so that they count as baseline."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(size):
                target = replace(self.target, chance=Random(number))
                tasks.create_task(self._once(target, listeners.upload_and_delete))

    async def _act(self, until_s: float, chance: Random, only: Behaviour | None) -> None:
        target = replace(self.target, chance=chance)
        await asyncio.sleep(chance.random())
        while time.monotonic() < until_s:
            await self._once(target, only or chance.choices(list(CLIENTS), list(CLIENTS.values()))[0])

    async def _once(self, target: Target, behaviour: Behaviour) -> None:
        name, ledger = behaviour.__name__, target.ledger
        try:
            async with asyncio.timeout(HANG_S):
                ledger.count(name, await behaviour(target))
        except Violation as violation:
            ledger.count(name, "violation")
            ledger.violate(f"{name}: {violation}")
        except TimeoutError:
            ledger.count(name, "hung")
            ledger.violate(f"{name}: no end within {HANG_S:g} s")
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
            ledger.count(name, "broken")
            ledger.violate(f"{name}: {type(error).__name__}: {error}")

    async def _probe(self, until_s: float) -> None:
        url = self.target.url("/health")
        async with aiohttp.ClientSession() as http:
            while time.monotonic() < until_s:
                started_s = time.perf_counter()
                try:
                    async with http.get(url, timeout=aiohttp.ClientTimeout(total=20)) as answer:
                        if answer.status != 200:
                            self.target.ledger.violate(f"/health answered {answer.status}")
                except (aiohttp.ClientError, TimeoutError) as error:
                    self.target.ledger.violate(f"/health: {type(error).__name__}: {error}")
                self.health_s.append(time.perf_counter() - started_s)
                await asyncio.sleep(PROBE_EVERY_S)

    def health_ms(self) -> dict[str, float]:
        """Returns the median, the 99th percentile and the maximum of `/health`."""
        times = sorted(self.health_s) or [0.0]
        places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        return {name: round(1000 * times[int(part * (len(times) - 1))], 1) for name, part in places.items()}
