"""`POST /v1/audio/speech/batch`: several utterances, with a result or an error for each."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.serve.listener import listener
from rhapsode.serve.request.body import json_body
from rhapsode.serve.request.intake import Order, chosen
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.request.schemas import BatchBody, read
from rhapsode.serve.response.audio import CancellableResponse, send_whole
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.response.whole_file import WholeFile
from rhapsode.serve.service import Service


class BatchResponse(CancellableResponse):
    """Runs all items concurrently, as far as there are slots. The failure of one item does not affect the others."""

    def __init__(self, service: Service, body: BatchBody, request_id: str, ignored: tuple[str, ...]) -> None:
        super().__init__()
        self._ignored = ignored
        self._service = service
        self._body = body
        self._id = request_id
        self._reading = asyncio.Lock()
        self._file = WholeFile(service.whole_files, listener.get())

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._item(i, item)) for i, item in enumerate(self._body.items)]
            del self._body  # a client that does not read its answer would keep it in memory
            await self._send([task.result() for task in tasks], send)
        finally:
            self._file.close()

    async def _send(self, results: list[dict[str, Any]], send: Send) -> None:
        failed = sum(result["status"] == "error" for result in results)
        body = {
            "id": self._id,
            "object": "speech.batch",
            "results": results,
            "total": len(results),
            "succeeded": len(results) - failed,
            "failed": failed,
            **({"ignored_fields": list(self._ignored)} if self._ignored else {}),
        }
        response = await asyncio.to_thread(JSONResponse, body)
        await send({"type": "http.response.start", "status": 200, "headers": response.raw_headers})
        await send_whole(bytes(response.body), self._sending, send)

    @asynccontextmanager
    async def _sending(self, size: int) -> AsyncIterator[None]:
        self._file.begin_send(size)
        try:
            async with asyncio.timeout(self._service.config.max_request_s):
                yield
            self._file.sent(size)
        except TimeoutError:
            raise Stalled("the client did not read its answer in time.") from None

    async def _item(self, index: int, item: dict[str, Any]) -> dict[str, Any]:
        request_id = f"{self._id}-{index}"
        result: dict[str, Any] = {"index": index, "request_id": request_id}
        try:
            order = await self._read(item)
            async with self._service.speaking(order, request_id) as playback:
                data = await playback.whole()
            self._file.grow(len(data))
            self._service.outcomes.delivered(request_id)
        except RhapsodeError as error:
            return result | {"status": "error"} | error.body()
        return result | {
            "status": "success",
            "audio_data": await asyncio.to_thread(_as_base64, data),
            "media_type": playback.content_type,
            "sample_rate": playback.sample_rate,
            "channels": playback.channels,
            "finish_reason": str(playback.outcome.finish_reason),
            "usage": self._service.usage(order.request, playback.outcome),
            **(playback.times.body() if order.request.word_timestamps else {}),
            **({"ignored_fields": list(order.ignored)} if order.ignored else {}),
        }

    async def _read(self, item: dict[str, Any]) -> Order:
        common = {name: value for name, value in chosen(self._body).items() if name != "items"}
        async with self._reading:  # one at a time: the fields common to all items may be large
            data = await asyncio.to_thread(_as_json, {**common, **item})
            order = await self._service.read(data)
        whole = replace(order.delivery, mode="whole")
        return replace(order, request=replace(order.request, real_time=False), delivery=whole)


def _as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=lambda body: body.model_dump(exclude_unset=True)).encode()


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["speech"])
    extra = service.described_body(service.schemas.batch)
    item = service.described_body(service.schemas.speech)["requestBody"]["content"]["application/json"]["schema"]
    items = extra["requestBody"]["content"]["application/json"]["schema"]["properties"]["items"]
    items |= {"items": item, "maxItems": service.config.max_batch}

    @routes.post(
        "/v1/audio/speech/batch",
        summary="Speak several",
        responses=responses(400, 401, 413, 415, 503),
        openapi_extra=extra,
    )
    async def batch(request: Request) -> Response:
        """Speaks items, each like a body of `/v1/audio/speech`; fields beside `items` apply to all of them."""
        data, ignored = await service.tolerate(service.schemas.batch, await json_body(request.scope, request.receive))
        body = await read(service.schemas.batch, data)
        if len(body.items) > service.config.max_batch:
            most = service.config.max_batch
            raise InvalidRequest(f"a batch has at most {most} items, not {len(body.items)}.", param="items")
        return BatchResponse(service, body, request.state.request_id, ignored)

    return routes
