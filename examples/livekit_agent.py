"""Runs a LiveKit agent that speaks through this server: python examples/livekit_agent.py dev

Needs `pip install "livekit-agents[openai,silero]"` and LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET.
"""

from livekit import agents
from livekit.agents import Agent, AgentSession
from livekit.plugins import openai, silero


async def entrypoint(context: agents.JobContext) -> None:
    session = AgentSession(
        vad=silero.VAD.load(),
        stt=openai.STT(),
        llm=openai.LLM(model="gpt-4o-mini"),
        tts=openai.TTS(base_url="http://127.0.0.1:8000/v1", api_key="none", model="gpt-4o-mini-tts", voice="alloy"),
    )
    await session.start(agent=Agent(instructions="You are a friendly voice."), room=context.room)
    await session.generate_reply(instructions="Greet the user.")


if __name__ == "__main__":
    agents.cli.run_app(agents.WorkerOptions(entrypoint_fnc=entrypoint))
