"""Callbacks that keep the event loop busy are counted, with the code they came from."""

import asyncio
import time

from rhapsode.serve.observe.callbacks import SLOW_S, measured
from rhapsode.serve.observe.metrics import Metrics


def burn(cpu_s: float) -> None:
    started_s = time.thread_time()
    while time.thread_time() - started_s < cpu_s:
        pass


async def busy() -> None:
    await asyncio.sleep(0)
    burn(2 * SLOW_S)


def read(metrics: Metrics, name: str) -> list[str]:
    lines = metrics.text().decode().splitlines()
    return [line for line in lines if line.startswith(f"rhapsode_{name}{{")]


def test_a_task_and_a_callback_that_take_long_are_named() -> None:
    metrics = Metrics()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with measured(loop, metrics):
            await asyncio.create_task(busy())
            loop.call_soon(burn, 2 * SLOW_S)
            await asyncio.sleep(0.01)

    asyncio.run(run())
    counted = read(metrics, "slow_callbacks_total")
    assert any("busy" in line for line in counted), counted
    assert any("burn" in line for line in counted), counted
    assert all(2 * SLOW_S <= float(line.split()[-1]) < 1 for line in read(metrics, "longest_callback_cpu_seconds"))


def test_waiting_costs_nothing_and_other_loops_are_left_alone() -> None:
    metrics = Metrics()

    async def run() -> None:
        with measured(asyncio.get_running_loop(), metrics):
            time.sleep(2 * SLOW_S)  # without CPU time, as when a neighbour has the core
            await asyncio.to_thread(asyncio.run, busy())

    asyncio.run(run())
    asyncio.run(busy())
    assert read(metrics, "slow_callbacks_total") == []
