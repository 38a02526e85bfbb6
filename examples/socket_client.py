"""Speaks text while it arrives, as from a language model: python examples/socket_client.py [ws://HOST:PORT]"""

import asyncio
import json
import sys
import wave

from websockets.asyncio.client import connect

TEXT = "This sentence is spoken while it is being written. So is this one. Nobody waits for the end."
RATE = 24_000


async def write(socket) -> None:
    await socket.send(json.dumps({"type": "session.config", "response_format": "pcm", "sample_rate": RATE}))
    for word in TEXT.split():
        await socket.send(json.dumps({"type": "input.text", "text": f"{word} "}))
        await asyncio.sleep(0.1)
    await socket.send(json.dumps({"type": "input.done"}))


async def main(url: str) -> None:
    audio = b""
    async with connect(f"{url}/v1/audio/speech/stream") as socket:
        writing = asyncio.create_task(write(socket))
        async for message in socket:
            if isinstance(message, bytes):
                audio += message
                continue
            told = json.loads(message)
            print(told)
            if told["type"] in ("session.done", "error"):
                break
        await writing
    with wave.open("socket.wav", "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(audio)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8000"))
