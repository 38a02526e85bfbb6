"""The line from samples to bytes: any chunking, any format, any speed."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import numpy as np
import pytest

from rhapsode.audio.formats import FORMATS
from rhapsode.engine.speech import Speech
from rhapsode.errors import Aborted, Busy, InvalidRequest, TimedOut
from rhapsode.serve.budget import SILENT_S, SLOW_BYTES_PER_S, Budget
from rhapsode.serve.listener import Listener
from rhapsode.serve.response.audio import send_whole
from rhapsode.serve.response.delivery import Delivery, DeliveryLimits, Playback
from rhapsode.serve.response.whole_file import SLICE_BYTES
from rhapsode.types import AudioChunk, FinishReason, Outcome, SpeechRequest

RATE = 16_000
TONE = (0.5 * np.sin(np.arange(RATE) * 0.05)).astype(np.float32)[None]


class Controls:
    def __init__(self) -> None:
        self.aborted: list[str] = []

    def append(self, request_id: str, text: str, final: bool = False) -> None: ...

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)


def spoken(chunk: int, error: Exception | None = None) -> Speech:
    speech = Speech("a", RATE, 1, Controls(), max_unread_s=60.0)
    for i, start in enumerate(range(0, RATE, chunk)):
        speech.push(AudioChunk(TONE[:, start : start + chunk], RATE, i))
    reason = FinishReason.FAILED if error else FinishReason.STOP
    speech.end(Outcome("a", reason, 1.0, 50, 0.0, 0.0, 0.1, error=error), error)
    return speech


def played(chunk: int, speed: float = 1.0, **wishes) -> bytes:
    async def run() -> bytes:
        with ThreadPoolExecutor(1) as pool:
            return await Playback(spoken(chunk), SpeechRequest("Hi.", speed=speed), Delivery(**wishes), pool).whole()

    return asyncio.run(run())


@pytest.mark.parametrize("speed", [1.0, 1.7])
@pytest.mark.parametrize("name", ["pcm", "wav", "mulaw", "l16", "opus_packets"])
def test_the_chunking_changes_nothing(name: str, speed: float) -> None:
    expected = played(RATE, speed, format=FORMATS[name])
    assert all(played(chunk, speed, format=FORMATS[name]) == expected for chunk in (320, 777, 5000))


def test_pcm_is_24_khz_unless_another_rate_is_wished_for() -> None:
    assert abs(len(played(320, format=FORMATS["pcm"])) // 2 - 24_000) <= 1
    assert len(played(320, format=FORMATS["pcm"], sample_rate=RATE)) // 2 == RATE


@pytest.mark.parametrize(
    ("name", "rate"),
    [("wav", 16_000), ("mp3", 16_000), ("pcm", 24_000), ("opus", 16_000), ("l16", 24_000), ("alaw", 8_000)],
)
def test_other_formats_keep_the_model_s_rate(name: str, rate: int) -> None:
    assert Delivery(FORMATS[name]).rate_from(RATE) == rate


def test_a_rate_the_codec_cannot_do_is_refused_with_those_it_can() -> None:
    with pytest.raises(InvalidRequest, match="8000, 12000, 16000, 24000, 48000"):
        Delivery(FORMATS["opus"], sample_rate=44_100).check()


def test_a_failure_comes_after_what_was_said_before_it() -> None:
    async def run() -> int:
        with ThreadPoolExecutor(1) as pool:
            playback = Playback(spoken(320, Aborted("gone.")), SpeechRequest("Hi."), Delivery(FORMATS["wav"]), pool)
            heard = await playback.get()  # all that waits comes at once
            with pytest.raises(Aborted):
                await playback.get()
        return len(heard or b"")

    assert asyncio.run(run()) == 44 + 2 * RATE


def test_the_reason_of_an_abort_is_raised_instead_of_the_abort() -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            speech = spoken(RATE, Aborted("gone."))
            playback = Playback(speech, SpeechRequest("Hi."), Delivery(FORMATS["pcm"], sample_rate=RATE), pool)
            playback.abort(TimedOut("too late."))
            assert await playback.get()
            with pytest.raises(TimedOut):
                await playback.get()

    asyncio.run(run())


class WholeFiles:
    """Room for four files of a second as wav, two of each client, on a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.budget = Budget(8 * RATE, "whole files", 4 * RATE, lambda: self.now_s)
        self.reset: list[str] = []

    @asynccontextmanager
    async def whole(self, client: str) -> AsyncIterator[Playback]:
        limits = DeliveryLimits(budget=self.budget)
        listening = Listener(client, reset=lambda: self.reset.append(client))
        with ThreadPoolExecutor(1) as pool:
            wanted = Delivery(FORMATS["wav"], "whole")
            playback = Playback(spoken(320), SpeechRequest("Hi."), wanted, pool, limits=limits, listener=listening)
            try:
                yield playback
            finally:
                playback.close()


def test_whole_files_have_a_share_of_each_client_and_give_way_only_while_nobody_reads_them() -> None:
    async def run() -> None:
        files = WholeFiles()
        async with files.whole("a") as first, files.whole("a") as second, files.whole("b") as third:
            bodies = [await playback.whole() for playback in (first, second, third)]
            async with files.whole("a") as more:
                with pytest.raises(Busy):
                    await more.whole()
            async with files.whole("b") as fourth, first.sending(SLICE_BYTES), third.sending(SLICE_BYTES):
                await fourth.whole()
                files.now_s += SILENT_S + SLICE_BYTES / SLOW_BYTES_PER_S / 2
                first._sent(2 * SLICE_BYTES, 0.0)  # its client reads
                async with files.whole("c") as honest:
                    assert await honest.whole() == bodies[0]
                assert files.reset == ["b"]

    asyncio.run(run())


def test_a_file_is_sent_in_slices_that_tell_how_fast_it_is_read() -> None:
    sizes: list[int] = []

    @asynccontextmanager
    async def sending(size: int) -> AsyncIterator[None]:
        sizes.append(size)
        yield

    async def send(message: dict) -> None: ...

    asyncio.run(send_whole(bytes(150_000), sending, send))
    assert sizes == [SLICE_BYTES, SLICE_BYTES, 150_000 - 2 * SLICE_BYTES]
