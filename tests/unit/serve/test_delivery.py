"""The line from samples to bytes: any chunking, any format, any speed."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rhapsode.audio.formats import FORMATS
from rhapsode.engine.speech import Speech
from rhapsode.errors import Aborted, InvalidRequest, TimedOut
from rhapsode.serve.response.delivery import Delivery, Playback
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
