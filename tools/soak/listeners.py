"""Clients that behave well: what they hear is compared with what is known, byte by byte."""

import asyncio
import base64
import time

import aiohttp
from tools.soak.cases import SPEECH, audio_of, spoken
from tools.soak.ledger import Violation
from tools.soak.target import BUSY, UNAVAILABLE, Target, refusal

VOICES = "/v1/audio/voices"
SOCKET = "/v1/audio/speech/stream"


async def listen(target: Target) -> str:
    """Asks for one utterance and reads all of it."""
    case = target.case()
    async with target.http.post(target.url(SPEECH), json=dict(case.body)) as answer:
        data = await answer.read()
        if answer.status != 200:
            return refusal(answer.status, data, allowed=[BUSY])
    case.check(audio_of(case.body, data))
    return "complete"


async def listen_to_batch(target: Target) -> str:
    """Asks for several utterances in one request."""
    cases = [target.case(is_whole=True) for _ in range(target.chance.randint(1, 4))]
    items = [{name: value for name, value in case.body.items() if name != "stream"} for case in cases]
    async with target.http.post(target.url(f"{SPEECH}/batch"), json={"items": items}) as answer:
        if answer.status != 200:
            return refusal(answer.status, await answer.read(), allowed=[BUSY])
        results = (await answer.json())["results"]
    for case, result in zip(cases, results, strict=True):
        if result["status"] == "success":
            case.check(base64.b64decode(result["audio_data"]))
        elif result["error"]["code"] != "queue_full":
            raise Violation(f"an item of a batch failed: {result}")
    return "complete"


async def converse(target: Target) -> str:
    """Speaks several utterances over one WebSocket, with text in pieces; now and then it cancels one."""
    by_sentence = target.served.model != "dummy"  # whose audio does not depend on how text arrives
    one_sentence = {"is_long": False} if by_sentence else {}
    async with target.http.ws_connect(target.url(SOCKET)) as socket:
        for _ in range(target.chance.randint(1, 3)):
            case = target.case(is_plain=True, **one_sentence)
            transport = target.chance.choice(["binary", "base64"])
            fields = {name: value for name, value in case.body.items() if name != "input"}
            by = {"split_granularity": "sentence" if by_sentence else "none"}
            await socket.send_json({"type": "session.config", "audio_transport": transport, **fields, **by})
            text = case.body["input"]
            cut = target.chance.randint(0, len(text))
            for part in (text[:cut], text[cut:]):
                await socket.send_json({"type": "input.text", "text": part})
                await asyncio.sleep(target.chance.random() * 0.05)
            if target.chance.random() < 0.2:
                await socket.send_json({"type": "input.cancel"})
                await _until_cancelled(socket)
                continue
            await socket.send_json({"type": "input.done"})
            case.check(await spoken(socket))
        await socket.send_json({"type": "session.close"})
    return "complete"


async def _until_cancelled(socket) -> None:
    while (message := await socket.receive()).type.name == "BINARY" or "session.cancelled" not in message.data:
        pass


async def upload_and_delete(target: Target) -> str:
    """Stores a voice, finds it in the list, deletes it, and does not find it any more."""
    name = f"soak {next(target.numbers)}"
    started_s = time.monotonic()
    async with target.http.post(target.url(VOICES), **_upload(target, name)) as answer:
        data = await answer.read()
        if answer.status != 201:
            full = [UNAVAILABLE] if target.served.was_full(started_s) else []
            unable = [] if target.served.clones else [400]
            return refusal(answer.status, data, allowed=[BUSY, *full, *unable])
    await asyncio.sleep(target.chance.random())
    if name not in await _names(target):
        raise Violation(f"the uploaded voice '{name}' is not listed")
    for status in (200, 404):
        async with target.http.delete(target.url(f"{VOICES}/{name}")) as answer:
            if answer.status != status:
                raise Violation(f"deleting '{name}' gave {answer.status}, not {status}: {await answer.text()}")
    if name in await _names(target):
        raise Violation(f"the deleted voice '{name}' is still listed")
    return "complete"


def _upload(target: Target, name: str) -> dict:
    if target.chance.random() < 0.3:
        embedding = [target.chance.random() + 0.01 for _ in range(64)]
        return {"json": {"name": name, "consent": "soak", "speaker_embedding": embedding}}
    form = aiohttp.FormData()
    form.add_field("name", name)
    form.add_field("consent", "soak")
    sample = target.case(is_whole=True)
    form.add_field("audio_sample", sample.expected, filename="sample.bin", content_type="application/octet-stream")
    return {"data": form}


async def _names(target: Target) -> set[str]:
    async with target.http.get(target.url(VOICES)) as answer:
        return {voice["name"] for voice in (await answer.json())["data"]}


async def look_around(target: Target) -> str:
    """Reads every page that changes nothing, all over one connection."""
    async with aiohttp.ClientSession() as http:
        for path in ("/", "/docs", "/openapi.json", "/v1/models", "/v1/models/tts-1", "/ready", VOICES, "/web/main.js"):
            async with http.get(target.url(path)) as answer:
                data = await answer.read()
                if answer.status != 200:
                    return refusal(answer.status, data, allowed=[])
    return "complete"
