"""The speech clients of frameworks for voice agents, where they are installed: LiveKit and Pipecat, over both APIs."""

import asyncio
import gc
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from e2e.clients.installed import module_of
from e2e.serve.running import LETTER_S, Running, in_thread
from spelling.family import LETTER_S as SPELT_S

pytestmark = pytest.mark.filterwarnings("ignore")  # what their own libraries have to say
TEXT = "Hello there."
TIMEOUT_S = 60
NEAR_S = 0.05


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return await work

    try:
        return asyncio.run(bounded())
    finally:
        gc.collect()  # sockets that their clients forget complain here, not in another test


async def livekit_seconds(stream: Any) -> float:
    async with stream:
        return sum([event.frame.duration async for event in stream])


@pytest.mark.parametrize("model", ["tts-1", "gpt-4o-mini-tts"])  # the second is answered with events
def test_livekit_speaks_through_its_openai_plugin(server: Running, model: str) -> None:
    openai = module_of("livekit", "livekit.plugins.openai")

    async def speak() -> float:
        tts = openai.TTS(base_url=f"{server.url}/v1", api_key="none", model=model, voice="low", response_format="pcm")
        try:
            return await livekit_seconds(tts.synthesize(TEXT))
        finally:
            await tts.aclose()

    assert run(speak()) == pytest.approx(12 * LETTER_S, abs=0.1)


def test_livekit_streams_text_through_its_elevenlabs_plugin(server: Running) -> None:
    elevenlabs = module_of("livekit", "livekit.plugins.elevenlabs")
    aiohttp = module_of("livekit", "aiohttp")

    async def speak() -> float:
        async with aiohttp.ClientSession() as session:
            tts = elevenlabs.TTS(
                base_url=f"{server.url}/v1",
                api_key="none",
                voice_id="low",
                model="eleven_turbo_v2_5",
                encoding="pcm_16000",
                http_session=session,
            )
            try:
                stream = tts.stream()
                for words in ("Hello ", "there."):
                    stream.push_text(words)
                stream.end_input()
                return await livekit_seconds(stream)
            finally:
                await tts.aclose()

    assert run(speak()) == pytest.approx(12 * LETTER_S, abs=0.2)


def test_livekit_knows_when_words_are_heard(spelling: Running) -> None:
    elevenlabs = module_of("livekit", "livekit.plugins.elevenlabs")
    aiohttp = module_of("livekit", "aiohttp")

    async def speak() -> dict[str, float]:
        from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT

        words: dict[str, float] = {}
        async with aiohttp.ClientSession() as session:
            here = {"base_url": f"{spelling.url}/v1", "api_key": "none", "http_session": session}
            tts = elevenlabs.TTS(**here, voice_id="default", model="eleven_turbo_v2_5", encoding="pcm_24000")
            try:
                async with tts.stream() as stream:
                    for text in ("It is ", "here. ", "So are we."):
                        stream.push_text(text)
                    stream.end_input()
                    async for event in stream:
                        for word in event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, ()):
                            words[str(word).strip()] = word.start_time
                return words
            finally:
                await tts.aclose()

    assert run(speak()) == pytest.approx(times_of("It is here. So are we. "), abs=NEAR_S)


def times_of(text: str) -> dict[str, float]:
    """When each word begins where a letter takes `SPELT_S`."""
    return {word: text.index(word) * SPELT_S for word in text.split()}


async def pipecat_audio(service: Any, words: dict[str, float] | None = None, text: str = TEXT) -> tuple[bytes, int]:
    """The samples that a pipeline of this service speaks, and their rate; `words` takes when each word is heard."""
    from pipecat.frames.frames import EndFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame, TTSTextFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineWorker
    from pipecat.processors.frame_processor import FrameProcessor
    from pipecat.workers.runner import WorkerRunner

    class Listener(FrameProcessor):
        def __init__(self) -> None:
            super().__init__()
            self.audio, self.rate = b"", 1
            self.has_ended = asyncio.Event()

        async def process_frame(self, frame: Any, direction: Any) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TTSAudioRawFrame):
                self.audio, self.rate = self.audio + frame.audio, frame.sample_rate
            if isinstance(frame, TTSTextFrame) and words is not None:
                words[frame.text.strip()] = frame.pts / 1e9
            if isinstance(frame, TTSStoppedFrame):
                self.has_ended.set()
            await self.push_frame(frame, direction)

    listener = Listener()
    worker = PipelineWorker(Pipeline([service, listener]))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await worker.queue_frame(TTSSpeakFrame(text))
    running = asyncio.create_task(runner.run())
    await listener.has_ended.wait()
    await worker.queue_frame(EndFrame())
    await running
    return listener.audio, listener.rate


def seconds_of(spoken: tuple[bytes, int]) -> float:
    return len(spoken[0]) / 2 / spoken[1]


def openai_service(url: str, voice: str) -> Any:
    tts = module_of("pipecat", "pipecat.services.openai.tts")
    settings = tts.OpenAITTSService.Settings(voice=voice)
    return tts.OpenAITTSService(base_url=f"{url}/v1", api_key="none", settings=settings)


def test_pipecat_speaks_through_its_openai_service(server: Running) -> None:
    async def speak() -> tuple[bytes, int]:
        return await pipecat_audio(openai_service(server.url, "alloy"))

    assert seconds_of(run(speak())) == pytest.approx(12 * LETTER_S, abs=0.1)


def test_pipecat_reaches_a_voice_of_ours_by_an_alias(tmp_path: Path) -> None:
    """It sends no seed: a server that repeats what was said first makes two requests comparable."""
    repeating = {"cache": {"bytes": 10**7, "unseeded": True}, "voice_aliases": {"nova": "high"}}
    with in_thread("dummy", tmp_path, server=repeating) as server:

        async def speak() -> tuple[bytes, int]:
            return await pipecat_audio(openai_service(server.url, "nova"))

        wish = {"response_format": "pcm", "sample_rate": 24_000}
        low, high = (server.speak(TEXT, voice=voice, **wish).content for voice in ("low", "high"))
        audio, rate = run(speak())
    assert rate == 24_000
    assert audio == high
    assert audio != low


def test_pipecat_streams_text_through_its_elevenlabs_service(server: Running) -> None:
    tts = module_of("pipecat", "pipecat.services.elevenlabs.tts")

    async def speak() -> tuple[bytes, int]:
        url = f"ws{server.url.removeprefix('http')}"
        settings = tts.ElevenLabsTTSService.Settings(voice="low")
        service = tts.ElevenLabsTTSService(api_key="none", url=url, sample_rate=16_000, settings=settings)
        return await pipecat_audio(service)

    assert seconds_of(run(speak())) == pytest.approx(12 * LETTER_S, abs=0.2)


def test_pipecat_knows_when_words_are_heard(spelling: Running) -> None:
    tts = module_of("pipecat", "pipecat.services.elevenlabs.tts")
    heard: dict[str, float] = {}

    async def speak() -> tuple[bytes, int]:
        url = f"ws{spelling.url.removeprefix('http')}"
        settings = tts.ElevenLabsTTSService.Settings(voice="default")
        service = tts.ElevenLabsTTSService(api_key="none", url=url, sample_rate=24_000, settings=settings)
        return await pipecat_audio(service, heard, "It is here. So are we.")

    assert run(speak())[0]
    expected = times_of("It is here. So are we.")
    assert heard.keys() == expected.keys()
    began_s = heard["It"]  # Pipecat counts from when it has heard the first audio
    assert {word: at_s - began_s for word, at_s in heard.items()} == pytest.approx(expected, abs=NEAR_S)
