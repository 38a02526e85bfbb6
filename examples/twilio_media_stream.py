"""A voice for telephone calls: speaks Twilio's media stream protocol on one side, Rhapsode's WebSocket on the other.

    rhapsode serve                                         # in one terminal
    python examples/twilio_media_stream.py --port 8080     # in another; make it reachable as wss://your.host/

Answer a call with  <Response><Connect><Stream url="wss://your.host/"/></Connect></Response>.  It greets the caller,
says which key was pressed, and stops speaking when the caller does (barge-in). Needs `pip install websockets`. A
session that is silent for a minute is closed: set `server: {socket: {idle_s: 3600}}` for long calls.
"""

import argparse
import asyncio
import base64
import json

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

GREETING = "Hello! Press a key, or say something while I speak, and I will stop."
FRAME_BYTES = 160  # 20 ms of mu-law at 8 kHz
SILENCE = b"\xff"
LOUD, LOUD_FRAMES = 4.0, 5  # of mu-law's eight segments; 100 ms of it are speech, less may be a click


class Call:
    """One telephone call: text in, 20 ms frames of mu-law out, until the caller hangs up or interrupts."""

    def __init__(self, caller, speaker) -> None:
        self._caller, self._speaker = caller, speaker
        self._stream = ""
        self._unsent = b""
        self._marks = 0
        self._playing = set()  # marks that the caller has not heard yet
        self._loud_frames = 0

    async def listen(self) -> None:
        """Handles what Twilio sends."""
        async for raw in self._caller:
            message = json.loads(raw)
            match message["event"]:
                case "start":
                    self._stream = message["start"]["streamSid"]
                    await self.say(GREETING)
                case "dtmf":
                    await self.say(f"You pressed {message['dtmf']['digit']}.")
                case "mark":
                    self._playing.discard(message["mark"]["name"])
                case "media" if self._is_speech(base64.b64decode(message["media"]["payload"])):
                    await self.interrupt()
                case "stop":
                    return

    async def say(self, text: str) -> None:
        self._marks += 1
        self._playing.add(f"utterance-{self._marks}")
        await self._speaker.send(json.dumps({"type": "input.text", "text": text}))
        await self._speaker.send(json.dumps({"type": "input.done"}))

    async def interrupt(self) -> None:
        """Stops what is being said, here and in the buffer of the telephone network."""
        if self._playing:
            await self._speaker.send(json.dumps({"type": "input.cancel"}))
            await self._send("clear")

    async def forward(self) -> None:
        """Passes speech on as it comes, in frames; a mark after each utterance comes back once it was heard."""
        async for message in self._speaker:
            if isinstance(message, bytes):
                self._unsent += message
                await self._send_frames(FRAME_BYTES)
                continue
            kind = json.loads(message)["type"]
            if kind == "session.done":
                await self._send_frames(1)
                await self._send("mark", mark={"name": f"utterance-{json.loads(message)['utterance_index'] + 1}"})
            elif kind == "session.cancelled":
                self._unsent = b""
                self._playing.clear()
            elif kind == "error":
                print(message)

    async def _send_frames(self, least: int) -> None:
        """Sends all frames that have at least so many bytes, the last one filled up with silence."""
        while len(self._unsent) >= least:
            frame, self._unsent = self._unsent[:FRAME_BYTES], self._unsent[FRAME_BYTES:]
            payload = base64.b64encode(frame.ljust(FRAME_BYTES, SILENCE)).decode("ascii")
            await self._send("media", media={"payload": payload})

    async def _send(self, event: str, **fields) -> None:
        await self._caller.send(json.dumps({"event": event, "streamSid": self._stream, **fields}))

    def _is_speech(self, frame: bytes) -> bool:
        """Whether the caller has spoken for a while: a mu-law code has the power of two of its level in three bits."""
        level = sum((~code >> 4) & 7 for code in frame) / max(1, len(frame))
        self._loud_frames = self._loud_frames + 1 if level > LOUD else 0
        return self._loud_frames == LOUD_FRAMES


async def answer(caller, rhapsode: str) -> None:
    """Handles one call, with a session of its own."""
    async with connect(f"{rhapsode}/v1/audio/speech/stream", proxy=None) as speaker:
        await speaker.send(json.dumps({"type": "session.config", "response_format": "mulaw"}))
        call = Call(caller, speaker)
        tasks = [asyncio.create_task(call.listen()), asyncio.create_task(call.forward())]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        for task in done:
            task.result()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rhapsode", default="ws://127.0.0.1:8000", help="where `rhapsode serve` listens")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    async with serve(lambda caller: answer(caller, arguments.rhapsode), "127.0.0.1", arguments.port) as server:
        print(f"listening on ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
