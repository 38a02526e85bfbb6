"""Clients that behave badly: they leave, do not read, send nonsense or half a request. They must harm nobody."""

import asyncio
import json
import time

import aiohttp
from tools.soak.cases import SPEECH
from tools.soak.ledger import Violation
from tools.soak.listeners import SOCKET, VOICES
from tools.soak.raw import RawRequest, body_of, request_bytes, status_of
from tools.soak.target import BUSY, UNAVAILABLE, Target, refusal

JSON = {"Content-Type": "application/json"}
BAD_BODIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"input": 1}',
    b'{"input": ""}',
    b'{"input": "\xf0\x9f\x8e\x89"}',
    b'{"input": "x", "voice": "nobody"}',
    b'{"input": "x", "speed": 99}',
    b'{"input": "x", "unknown": 1}',
    b'{"input": "x", "ref_audio": "http://127.0.0.1:1/a.wav"}',
    b'{"input": "x", "seed": -1}',
    b'{"input": "x", "response_format": "exe"}',
    b'{"input": "' + b"word " * 40_000 + b'"}',
    b'{"input": ' + b"[" * 100_000 + b"}",
    b'{"items": [' + b"1," * 50_000 + b"1]}",
    b'{"input": "a' + "\u0315\u0300".encode() * 30_000 + b'"}',
)
RECEIVE_TIMEOUT_S = 8.0


async def leave(target: Target) -> str:
    """Leaves after a random number of bytes; what it heard is the beginning of its own audio."""
    case = target.case(is_plain=True)
    async with RawRequest(target.served.port) as request:
        await request.ask(case.body)
        wanted = target.chance.randint(0, len(case.expected))
        while len(request.data) < wanted and await request.read(4096):
            pass
    return _heard(case, request)


async def read_slowly(target: Target) -> str:
    """Reads a little at a time, for a while; then leaves."""
    case = target.case(is_plain=True)
    async with RawRequest(target.served.port) as request:
        await request.ask(case.body)
        for _ in range(target.chance.randint(5, 40)):
            if not await request.read(target.chance.choice([64, 1024, 4096])):
                break
            await asyncio.sleep(target.chance.random() * 0.3)
    return _heard(case, request)


def _heard(case, request: RawRequest) -> str:
    status = status_of(request.data)
    if status is None:
        return "left before an answer"
    if status != 200:
        return refusal(status, request.data, allowed=[BUSY])
    case.check(body_of(request.data), may_be_cut=True)
    return "left"


async def never_read(target: Target) -> str:
    """Asks for minutes of audio and reads none of it."""
    async with RawRequest(target.served.port) as request:
        await request.ask(target.long_body())
        await asyncio.sleep(target.chance.random() * 6)
    return "left"


async def send_half(target: Target) -> str:
    """Sends the first half of a request and waits: the server must end the connection by itself."""
    whole = request_bytes(target.served.port, json.dumps(dict(target.case().body)).encode())
    async with RawRequest(target.served.port) as request:
        request.writer.write(whole[: target.chance.randint(1, len(whole) - 1)])
        try:
            async with asyncio.timeout(RECEIVE_TIMEOUT_S + 60):
                while await request.read(4096):
                    pass
        except TimeoutError:
            raise Violation("half a request stays open") from None
    if request.data:
        return refusal(status_of(request.data) or 0, request.data, allowed=[400, 408])
    return "closed"


async def send_nonsense(target: Target) -> str:
    """Sends a body that is wrong in some way."""
    path = target.chance.choice([SPEECH, f"{SPEECH}/batch", VOICES])
    body = target.chance.choice(BAD_BODIES)
    async with target.http.post(target.url(path), data=body, headers=JSON) as answer:
        data = await answer.read()
    if "error" not in json.loads(data):
        raise Violation(f"{answer.status} for {body[:50]!r} without an explanation: {data[:200]!r}")
    return refusal(answer.status, data, allowed=[400, 404, 413, 415, BUSY])


async def upload_damage(target: Target) -> str:
    """Uploads audio in which some bytes were changed."""
    started_s = time.monotonic()
    sample = bytearray(target.case(is_whole=True).expected)
    for _ in range(target.chance.randint(1, 20)):
        sample[target.chance.randrange(min(200, len(sample)))] = target.chance.randrange(256)
    form = aiohttp.FormData()
    name = f"damaged {next(target.numbers)}"
    for key, value in (("name", name), ("consent", "soak")):
        form.add_field(key, value)
    form.add_field("audio_sample", bytes(sample[: target.chance.randint(0, len(sample))]), filename="a")
    async with target.http.post(target.url(VOICES), data=form) as answer:
        data = await answer.read()
    if answer.status != 201:
        full = [UNAVAILABLE] if target.served.was_full(started_s) else []
        return refusal(answer.status, data, allowed=[400, BUSY, *full])
    async with target.http.delete(target.url(f"{VOICES}/{name}")) as answer:
        return "deleted" if answer.status == 200 else refusal(answer.status, await answer.read(), allowed=[])


async def talk_nonsense(target: Target) -> str:
    """Sends wrong messages over a WebSocket; each is answered by an error, and the socket stays usable."""
    wrong = ["", "{", "[]", '{"type": "input.txt"}', '{"type": "input.text"}', '{"type": "session.config", "a": 1}']
    async with target.http.ws_connect(target.url(SOCKET)) as socket:
        for _ in range(target.chance.randint(1, 5)):
            await socket.send_str(target.chance.choice(wrong))
            answer = await socket.receive(timeout=30)
            if json.loads(answer.data)["type"] != "error":
                raise Violation(f"nonsense over a socket was answered by {answer.data[:200]}")
    return "refused"


async def vanish(target: Target) -> str:
    """Opens a WebSocket, asks for speech, and is gone without a word."""
    socket = await target.http.ws_connect(target.url(SOCKET))
    await socket.send_json({"type": "session.config", **{k: v for k, v in target.long_body().items() if k != "input"}})
    await socket.send_json({"type": "input.text", "text": target.long_body()["input"]})
    if target.chance.random() < 0.5:
        await socket.send_json({"type": "input.done"})
    await asyncio.sleep(target.chance.random() * 2)
    transport = socket._response.connection.transport
    transport.abort()
    await socket.close()
    return "left"
