"""Counts the function calls of one request in a server's event loop: a measure that depends on no machine.

    python benchmarks/request_calls.py [--burst 64] [--rounds 3] [--characters 1] [--top 30] [--dump FILE]

The server is the dummy family in this process, its clients are another process. cProfile counts the calls of the event
loop's thread, Python's and C's. How many pieces of audio a request of many characters has depends on the engine's
speed, so they are printed, too. To count another version, set PYTHONPATH to its sources.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.request_cost import Client, request_of

from rhapsode.config import resolve
from rhapsode.serve.app import create_app
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.ports import listen
from rhapsode.serve.server import Server


async def ask(port: int, size: int, characters: int) -> None:
    """The client process: one burst over kept connections for every line of standard input."""
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(size)]
    while await loop.run_in_executor(None, sys.stdin.readline):
        await asyncio.gather(*(client.ask(request_of(port, characters)) for client in clients))
        print("done", flush=True)


class ProfiledServer(Server):
    """A server that profiles bursts of its own clients, and ends."""

    profile = cProfile.Profile()

    def __init__(self, app: Any, given: argparse.Namespace) -> None:
        super().__init__(app)
        self._given = given

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._measuring = asyncio.create_task(self._measure(sockets[0].getsockname()[1]))

    async def _measure(self, port: int) -> None:
        while not self._service.host.warm:
            await asyncio.sleep(0.05)
        sizes = ("--client", str(port), "--burst", str(self._given.burst), "--characters", str(self._given.characters))
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, __file__, *sizes, **pipes)
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(self._given.rounds + 1):
            if number == 1:  # the first burst is a warm-up
                self.profile.enable()
            process.stdin.write(b"go\n")
            await process.stdout.readline()
        self.profile.disable()
        process.stdin.close()
        await process.wait()
        self.should_exit = True


def serve(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        limits = {"max_concurrency": 256, "max_queue": 1024, "max_positions": 256, "real_time": False}
        flags = {"model": "dummy", "device": "cpu", "limits": limits, "server": {"voices": folder}}
        app = create_app(resolve(env={}, flags=flags))
        with (Path(folder) / "log").open("w") as log:
            sys.stderr, stderr = log, sys.stderr
            configure("text")
            sys.stderr = stderr
            server = ProfiledServer(app, given)
            server.run([listen("127.0.0.1", 0)])
    show(pstats.Stats(server.profile), given)


def show(stats: Any, given: argparse.Namespace) -> None:
    if given.dump:
        stats.dump_stats(given.dump)
    requests = given.burst * given.rounds
    found = sorted(stats.stats.items(), key=lambda item: -item[1][1])
    pieces = sum(counts[1] for (file, _, name), counts in found if name == "_write" and file.endswith("delivery.py"))
    print(f"{stats.total_calls / requests:.0f} calls of a request with {pieces / requests:.2f} pieces of audio")
    for (file, line, name), (_, count, own_s, all_s, _) in found[: given.top]:
        where = f"{'/'.join(Path(file).parts[-3:])}:{line}" if line else file
        times = f"{own_s / requests * 1e6:8.1f} us {all_s / requests * 1e6:8.1f} us"
        print(f"{count / requests:8.2f} {times}  {name}  {where}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burst", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--characters", type=int, default=1)
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--dump", help="a file for the profile, for pstats")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        asyncio.run(ask(given.client, given.burst, given.characters))
    else:
        serve(given)


if __name__ == "__main__":
    main()
