"""Runs a Pipecat pipeline that speaks through this server, to the local speakers: python examples/pipecat_bot.py

Needs pip install "pipecat-ai[openai,local]>=1.3"
"""

import asyncio

from pipecat.frames.frames import EndFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.transports.local.audio import LocalAudioTransport, LocalAudioTransportParams
from pipecat.workers.runner import WorkerRunner


async def main() -> None:
    speakers = LocalAudioTransport(LocalAudioTransportParams(audio_out_enabled=True))
    settings = OpenAITTSService.Settings(voice="alloy")
    tts = OpenAITTSService(base_url="http://127.0.0.1:8000/v1", api_key="none", settings=settings)
    worker = PipelineWorker(Pipeline([tts, speakers.output()]))
    await worker.queue_frames([TTSSpeakFrame("Hello from your own machine."), EndFrame()])
    runner = WorkerRunner()
    await runner.add_workers(worker)
    await runner.run()


asyncio.run(main())
