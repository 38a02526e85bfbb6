"""Runs a Pipecat pipeline that speaks through this server, to the local speakers: python examples/pipecat_bot.py

Needs pip install "pipecat-ai[openai,local]"
"""

import asyncio

from pipecat.frames.frames import EndFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineTask
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.transports.local.audio import LocalAudioTransport, LocalAudioTransportParams


async def main() -> None:
    speakers = LocalAudioTransport(LocalAudioTransportParams(audio_out_enabled=True))
    tts = OpenAITTSService(base_url="http://127.0.0.1:8000/v1", api_key="none", voice="alloy")
    task = PipelineTask(Pipeline([tts, speakers.output()]))
    await task.queue_frames([TTSSpeakFrame("Hello from your own machine."), EndFrame()])
    await PipelineRunner().run(task)


asyncio.run(main())
