"""Measures what a busy second model costs the listeners of the first, in a server that has both.

    python benchmarks/several_models.py [--model rhapsode-nano] [--device cpu] [--rounds 20] [--busy 0,1,2]
        [--random-weights]

First audio of one listener of the first model: from a server that has this model alone, and from one with two, while
the second model speaks for some clients without a pause. All are asked in turns, so that other work on this machine
disturbs them alike.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from started_server import Served, started

TEXT = "The quick brown fox jumps over the lazy dog."
LONG = " ".join([TEXT] * 8)
SETTLE_S = 1.0


def first_audio_s(served: Served, model: str, text: str = TEXT, ended: threading.Event | None = None) -> float:
    """Returns the time to the first byte of audio, and reads the rest, or until `ended`."""
    asked = {"model": model, "input": text, "response_format": "pcm", "seed": 1}
    connection = http.client.HTTPConnection(str(urlsplit(served.url).netloc), timeout=120)
    begun_s = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", json.dumps(asked), {"Content-Type": "application/json"})
    with connection.getresponse() as answer:
        if answer.status != 200:
            raise ConnectionError(answer.read().decode())
        answer.read(1)
        first_s = time.perf_counter() - begun_s
        while answer.read(2**14) and not (ended and ended.is_set()):
            pass
    connection.close()
    return first_s


@contextmanager
def busy(served: Served, model: str, clients: int) -> Iterator[None]:
    """Clients that each ask for a long text, again and again, until the block is left. An error of one ends it."""
    ended = threading.Event()
    failed: list[Exception] = []

    def listen() -> None:
        try:
            while not ended.is_set():
                first_audio_s(served, model, LONG, ended)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=listen) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        if clients:
            time.sleep(SETTLE_S)
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="rhapsode-nano")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--busy", default="0,1,2", help="clients of the second model: a list")
    parser.add_argument("--random-weights", action="store_true", help="without a checkpoint's weights: a shape's pace")
    options = parser.parse_args()
    deployment: dict[str, Any] = {"model": options.model, "device": options.device}
    deployment["random_weights"] = options.random_weights
    both = {name: {"deployment": deployment, "pinned": True} for name in ("first", "second")}
    counts = [int(count) for count in options.busy.split(",")]
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        server = {"server": {"port": 0}}
        one = stack.enter_context(started({**deployment, **server}, folders[0], folders[0] / "log"))
        two = stack.enter_context(started({"models": both, **server}, folders[1], folders[1] / "log"))
        for name in both:  # waits until it is loaded
            first_audio_s(two, name)
        first_audio_s(one, options.model)
        for _ in range(options.rounds):
            times.setdefault("the model alone in its server", []).append(first_audio_s(one, options.model))
            for count in counts:
                with busy(two, "second", count):
                    row = f"beside a second model with {count} busy clients"
                    times.setdefault(row, []).append(first_audio_s(two, "first"))
        memory_mib = two.metric("pool_memory_bytes") / len(both) / 2**20
    for row, measured in times.items():
        at = [1000 * seconds for seconds in statistics.quantiles(measured, n=20, method="inclusive")]
        print(f"{row:<48} first audio p50 {at[9]:6.1f} ms, p95 {at[18]:6.1f} ms")
    print(f"the process of one model takes {memory_mib:.0f} MiB")


if __name__ == "__main__":
    main()
