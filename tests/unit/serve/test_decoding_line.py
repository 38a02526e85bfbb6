"""Recordings that take long to decode or to search delay only their own client."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.config.marking import MarkingConfig
from rhapsode.config.server import ServerConfig
from rhapsode.errors import Busy
from rhapsode.serve import detection
from rhapsode.serve.budget import Budget
from rhapsode.serve.detection import DetectionDesk
from rhapsode.serve.listener import Listener, listener
from rhapsode.serve.middleware.limits import CountedBody, counted_body
from rhapsode.serve.request.references import DECODERS_EACH, WAITING, References
from rhapsode.types import Clip
from rhapsode.voices.store import VoiceStore

WAIT_S = 20
CLIP = Clip(np.zeros((1, 160), np.float32), 16_000)


class Slow:
    """Work that takes until it is let go, but for that of one client."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began = 0

    def __call__(self, is_slow: bool) -> None:
        self.began += 1
        if is_slow:
            assert self.open.wait(WAIT_S)


async def asked(client: str, what: Any) -> Any:
    listener.set(Listener(client))
    return await what()


def test_slow_files_of_one_client_leave_a_decoder_and_the_line_to_others(tmp_path: Path, monkeypatch) -> None:
    slow = Slow()

    async def run() -> None:
        references = References(ServerConfig(), VoiceStore(tmp_path / "voices", 10))

        def decode(data: bytes) -> tuple[Clip, int]:
            slow(data.startswith(b"slow"))
            return CLIP, 640

        monkeypatch.setattr(references, "_decode", decode)

        def clip(client: str, data: bytes) -> asyncio.Task[Clip]:
            return asyncio.create_task(asked(client, lambda: references.clip(data, "file")))

        greedy = [clip("greedy", b"slow %d" % number) for number in range(DECODERS_EACH + WAITING + 2)]
        while sum(task.done() for task in greedy) < 2:  # what has no place is refused
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(clip("honest", b"quick"), WAIT_S) is CLIP
        assert slow.began == DECODERS_EACH + 1
        assert await asyncio.wait_for(clip("greedy", b"quick"), WAIT_S) is CLIP  # it is in the cache
        slow.open.set()
        ended = await asyncio.gather(*greedy, return_exceptions=True)
        assert sum(isinstance(result, Busy) for result in ended) == 2
        references.close()

    asyncio.run(run())


def test_uploads_that_wait_for_a_decoder_give_way_when_others_need_room(tmp_path: Path, monkeypatch) -> None:
    slow = Slow()

    async def run() -> None:
        budget = Budget(100, "tests", 50)
        references = References(ServerConfig(), VoiceStore(tmp_path / "voices", 10))
        monkeypatch.setattr(references, "_decode", lambda data: (slow(True), (CLIP, 640))[1])

        async def upload(client: str, size: int, number: int) -> Clip:
            body = CountedBody()
            body.account = budget.open(client, lambda: None)
            try:
                body.account.hold(size)
                body.keep()
                counted_body.set(body)
                return await asked(client, lambda: references.clip(b"%s %d" % (client.encode(), number), "file"))
            finally:
                body()

        greedy = [asyncio.create_task(upload(client, 25, number)) for client in "ab" for number in range(2)]
        while slow.began < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        honest = asyncio.create_task(upload("c", 25, 0))
        done, _ = await asyncio.wait(greedy, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        assert done <= {greedy[1], greedy[3]}  # one that waited, none that is decoded
        assert isinstance(done.pop().exception(), Busy)
        slow.open.set()
        assert await honest is CLIP
        await asyncio.gather(*greedy, return_exceptions=True)
        references.close()

    asyncio.run(run())


def test_searches_of_one_client_leave_the_line_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()

    async def run() -> None:
        monkeypatch.setattr(detection, "detect", lambda clip: slow(True))
        desk = DetectionDesk(MarkingConfig())
        monkeypatch.setattr(desk, "_body", lambda found, clip: {"object": "audio.detection"})

        def search(client: str) -> asyncio.Task[dict[str, Any]]:
            return asyncio.create_task(asked(client, lambda: desk.detect(CLIP)))

        greedy = [search("greedy") for _ in range(detection.MOST_WAITING + 1)]
        await asyncio.sleep(0.05)
        honest = search("honest")
        await asyncio.sleep(0.05)
        slow.open.set()
        assert await asyncio.wait_for(honest, WAIT_S)
        ended = await asyncio.gather(*greedy, return_exceptions=True)
        assert [isinstance(result, Busy) for result in ended] == [False] * detection.MOST_WAITING + [True]
        desk.close()

    asyncio.run(run())
