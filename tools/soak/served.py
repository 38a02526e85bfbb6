"""A server process under soak: started, watched through `/metrics`, `/proc` and its log, and stopped."""

import asyncio
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tools.soak import readings

START_S, STOP_S, REST_S, TRIM_S = 240.0, 60.0, 240.0, 2.5
MOST_LINES = 50
# What the full disk is expected to be logged as; every other error in the log is a violation.
EMBEDDING_SIZE = 64
EXPECTED_LOG = ("the voices folder",)


class Served:
    """One running server, and what can be seen of it from outside."""

    def __init__(self, model: str, folder: Path, process: asyncio.subprocess.Process, http: aiohttp.ClientSession):
        self.model = model
        self.clones = model == "dummy"
        self.folder = folder
        self.process = process
        self.http = http
        self.url = ""
        self.errors: list[str] = []
        """Lines of the log that report an error."""
        self.clock_jumps = 0
        self._disk_is_full = False
        self._had_room_at_s = 0.0
        self._listening = asyncio.Event()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def fill_disk(self, full: bool) -> None:
        """Makes every write to a file fail, as on a full disk, or succeed again; needs no privileges."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))
        self._disk_is_full = full
        self._had_room_at_s = time.monotonic()

    def was_full(self, since_s: float) -> bool:
        """Tells whether the disk was full at some time since then, by the monotonic clock."""
        return self._disk_is_full or self._had_room_at_s > since_s

    async def metrics(self) -> list[tuple[str, str, float]]:
        """Returns the name, the labels and the value of every metric."""
        async with self.http.get(f"{self.url}/metrics") as answer:
            found = re.findall(r"^(\w+)(\{.*\})? (\S+)$", await answer.text(), re.MULTILINE)
        return [(name, labels, float(value)) for name, labels, value in found]

    async def gauges(self) -> dict[str, float]:
        """Returns the metrics without labels."""
        return {name: value for name, labels, value in await self.metrics() if not labels}

    async def responses(self) -> dict[str, int]:
        """Returns how many HTTP responses had each status."""
        found: dict[str, int] = {}
        for name, labels, value in await self.metrics():
            if name == "rhapsode_http_responses_total" and (status := re.search(r'status="(\w+)"', labels)):
                found[status[1]] = found.get(status[1], 0) + int(value)
        return found

    async def longest_callback_s(self) -> float:
        """Returns the longest CPU time of one callback of the event loop; 0 where the server does not measure it."""
        metric = "rhapsode_longest_callback_cpu_seconds"
        return max((value for name, _, value in await self.metrics() if name == metric), default=0.0)

    async def rest(self) -> None:
        """Waits until nothing is in flight."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + REST_S
        while not readings.is_at_rest(await self.gauges()) and loop.time() < deadline_s:
            await asyncio.sleep(0.2)

    async def take_readings(self) -> readings.Readings:
        """Returns what the server holds, once freed memory has been returned."""
        await asyncio.sleep(TRIM_S)
        return readings.take(self.pid, self.folder / "voices", await self.gauges())

    async def unloaded(self, timeout_s: float) -> bool:
        """Waits for the idle server to unload its model; tells whether it did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (await self.gauges())["rhapsode_model_loaded"]:
                    await asyncio.sleep(0.2)
                return True
        return False

    async def stop(self) -> int | None:
        """Asks the process to end, and returns its exit status; None if it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            return None

    async def read_log(self) -> None:
        """Reads the log to its end. Keeps what it says about errors: of a traceback the error and its place."""
        assert self.process.stderr is not None
        in_traceback, place = False, ""
        async for raw in self.process.stderr:
            line = raw.decode("utf-8", "replace").rstrip()
            if found := re.search(r"listening\s+(http://\S+:\d+)", line):
                self.url = found[1]
                self._listening.set()
            self.clock_jumps += "the clock jumped" in line
            if in_traceback and line.startswith(" "):
                place = line if line.lstrip().startswith("File ") else place
            elif in_traceback:
                self._keep(f"{line} ({place.strip()})")
            elif " ERROR " in line or " CRITICAL " in line:
                self._keep(line)
            in_traceback = "Traceback" in line or (in_traceback and line.startswith(" "))
        self._listening.set()

    def _keep(self, line: str) -> None:
        if not any(known in line for known in EXPECTED_LOG) and len(self.errors) < MOST_LINES:
            self.errors.append(line[:300])

    async def until_ready(self) -> None:
        async with asyncio.timeout(START_S):
            await self._listening.wait()
            if not self.url:
                raise RuntimeError(f"the server did not start: {self.errors}")
            while True:
                with suppress(aiohttp.ClientConnectionError):
                    async with self.http.get(f"{self.url}/health") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.1)


def _checkpoint(model: str, folder: Path) -> str:
    """Returns what to serve: of the dummy a checkpoint that clones, so that voices can be uploaded."""
    if model != "dummy":
        return model
    checkpoint = folder / "cloning-dummy"
    checkpoint.mkdir(exist_ok=True)
    can = {"clone": True, "embedding": True}
    config = {"architectures": ["RhapsodeDummy"], "can": can, "embedding_size": EMBEDDING_SIZE}
    (checkpoint / "config.json").write_text(json.dumps(config))
    return str(checkpoint)


@asynccontextmanager
async def serving(folder: Path, deployment: Mapping[str, Any], faults: Sequence[str]) -> AsyncIterator[Served]:
    """Starts `rhapsode serve` with this deployment; ends it, if nobody has, when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump({**deployment, "model": _checkpoint(deployment["model"], folder)}))
    launcher = Path(__file__).with_name("launcher.py")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RHAPSODE_")}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    env["SOAK_FAULTS"] = ",".join(faults)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(launcher), "serve", "--config", str(file)),
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    # A connection per request: one that was kept may be closed by the server at the moment it is used again.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
        served = Served(deployment["model"], folder, process, http)
        reader = asyncio.create_task(served.read_log())
        try:
            await served.until_ready()
            yield served
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reader
