"""Trouble from outside: the wall clock jumps, the disk is full, client processes are stopped, continued and killed."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tools.soak.ledger import Violation
from tools.soak.listeners import VOICES
from tools.soak.target import Target

JUMP_EVERY_S, FILL_EVERY_S, FREEZE_EVERY_S = 3.0, 4.0, 2.0
CLIENT = Path(__file__).with_name("frozen.py")


async def jump_clock(target: Target) -> str:
    """Sets the server's wall clock to another hour or year. Time-outs use the monotonic clock, so nothing happens."""
    await asyncio.sleep(JUMP_EVERY_S * target.chance.random())
    target.served.process.send_signal(signal.SIGUSR1)
    return "jumped"


async def fill_disk(target: Target) -> str:
    """Lets every write fail for a moment: an upload is refused, everything else works; then there is room again."""
    await asyncio.sleep(FILL_EVERY_S * target.chance.random())
    target.served.fill_disk(True)
    try:
        name = f"full {next(target.numbers)}"
        statuses = [await _upload(target, name), await _status(target, "GET", VOICES)]
        await asyncio.sleep(target.chance.random())
    finally:
        target.served.fill_disk(False)
    if statuses != [503 if target.served.clones else 400, 200]:
        raise Violation(f"with a full disk, an upload and the list of voices gave {statuses}")
    return f"refused {statuses[0]}"


async def _upload(target: Target, name: str) -> int:
    body = {"name": name, "consent": "soak", "speaker_embedding": [1.0] * 64}
    return await _status(target, "POST", VOICES, json=body)


async def _status(target: Target, method: str, path: str, **fields) -> int:
    async with target.http.request(method, target.url(path), **fields) as answer:
        await answer.read()
        return answer.status


async def freeze(target: Target) -> str:
    """Stops a client process while it listens; continued, it still gets all of its audio; killed, it leaves nothing."""
    await asyncio.sleep(FREEZE_EVERY_S * target.chance.random())
    case = target.case(is_plain=True)
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(CLIENT), "127.0.0.1", str(target.served.port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        client.stdin.write(json.dumps(dict(case.body)).encode())
        client.stdin.write_eof()
        await client.stdout.readline()
        await asyncio.sleep(target.chance.random() * 0.1)
        _signal(client, signal.SIGSTOP)
        await asyncio.sleep(target.chance.random() * 3)
        if target.chance.random() < 0.3:
            return "killed"
        _signal(client, signal.SIGCONT)
        answer = (await client.stdout.readline()).decode().split()
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()
    if answer[:1] == ["429"]:
        return "refused 429"
    if answer != ["200", hashlib.sha256(case.expected).hexdigest()]:
        raise Violation(f"a client that was stopped and continued got {answer}")
    return "continued"


def _signal(client: asyncio.subprocess.Process, number: int) -> None:
    """Sends a signal to a client that may have heard everything and ended already."""
    if client.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(client.pid, number)
