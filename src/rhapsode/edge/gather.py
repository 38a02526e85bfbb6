"""Answers that need several replicas: lists of models and voices, metrics, and the outcome of a request."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from starlette.requests import Request

from rhapsode.edge.exposition import join
from rhapsode.edge.fleet import Fleet, FleetReplica, ModelFleet
from rhapsode.edge.upstream import ReplicaLost, Upstream, pieces, target_of
from rhapsode.errors import RhapsodeError, Unavailable
from rhapsode.serve.description import entry
from rhapsode.serve.middleware.auth import is_keyless
from rhapsode.serve.voice_list import names_only

log = logging.getLogger("rhapsode.edge")

ASK_S = 10.0


class Gatherer:
    """Asks replicas for what they know, and joins their answers."""

    def __init__(self, fleet: Fleet, upstream: Upstream) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._models: dict[str, dict[str, Any]] = {}
        self._api_description: dict[str, Any] | None = None

    async def models(self, request: Request) -> list[dict[str, Any]]:
        """Returns all models. One without a replica has its last known description, or the one it was given."""
        lists = await asyncio.gather(*(self._first(model, request) for model in self._fleet.models.values()))
        found: dict[str, dict[str, Any]] = {}
        for (name, model), answer in zip(self._fleet.models.items(), lists, strict=True):
            main, *aliases = _entries(answer) or [self._models.get(name) or entry(name, 0) | dict(model.description)]
            self._models[name] = main
            if "family" in main:  # it is more than a name
                main = main | model.progress()
            alias: dict[str, Any] = {key: main[key] for key in ("id", "object", "created", "owned_by") if key in main}
            entries: list[dict[str, Any]] = [main | {"id": name}, alias, *aliases]
            for each in entries:
                found.setdefault(each["id"], each)
        return list(found.values())

    async def voices(self, request: Request, names: list[str]) -> list[dict[str, Any]]:
        """Returns the voices of these models: the presets of each, and the uploaded voices, which all models share. One
        without a replica has the presets that it was given."""
        lists = await asyncio.gather(*(self._first(self._fleet.models[name], request) for name in names))
        found: dict[str, dict[str, Any]] = {}
        for name, answer in zip(names, lists, strict=True):
            presets = self._fleet.models[name].presets
            for each in _entries(answer) or (names_only(presets) if is_keyless(request) else presets):
                found.setdefault(each["id"], each)
        return list(found.values())

    async def elevenlabs_models(self, request: Request) -> list[Any]:
        """Returns all models that have a replica, in ElevenLabs' shape."""
        lists = await asyncio.gather(*(self._first(model, request) for model in self._fleet.models.values()))
        return _once([entry for found in lists for entry in found or ()], "model_id")

    async def elevenlabs_voices(self, request: Request) -> list[Any]:
        """Returns the voices of all models, in ElevenLabs' shape."""
        lists = await asyncio.gather(*(self._first(model, request) for model in self._fleet.models.values()))
        return _once([entry for found in lists for entry in (found or {}).get("voices", ())], "voice_id")

    async def metrics(self, own: str) -> str:
        """Returns the metrics of the edge and of all replicas."""
        replicas = self._fleet.all()
        answers = await asyncio.gather(*(self._ask(replica, "/metrics", []) for _, replica in replicas))
        pages = [
            ({"model": model, "replica": replica.id}, answer[1].decode())
            for (model, replica), answer in zip(replicas, answers, strict=True)
            if answer is not None and answer[0] == 200
        ]
        return join([({}, own), *pages])

    async def outcome(self, request: Request, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Returns the outcome of a request, from its owner if that is known, otherwise from any replica."""
        target, headers = target_of(request.scope), request.headers.raw
        known = self._fleet.find(owner) if owner else None
        replicas = [known] if known else [replica for _, replica in self._fleet.all()]
        for answer in await asyncio.gather(*(self._ask(replica, target, headers) for replica in replicas)):
            if answer is not None and answer[0] == 200:
                found: dict[str, Any] = json.loads(answer[1])
                return found
        return None

    async def open_page(self, replica: FleetReplica) -> None:
        """Opens the page of a replica, as a browser would that is connected to it."""
        await self._ask(replica, "/", [])

    async def api_description(self, request: Request) -> dict[str, Any]:
        """Returns the OpenAPI description of the first model that is loaded, or the last one that was asked for."""
        for model in self._fleet.models.values():
            if (found := await self._first(model, request)) is not None:
                self._api_description = found
                break
        if self._api_description is None:
            raise Unavailable("the API's description is that of a loaded model, and none is loaded yet.")
        return self._api_description

    async def _first(self, model: ModelFleet, request: Request) -> Any:
        """Returns the first successful answer of a model's replicas, or `None`. Never starts a replica."""
        for replica in model.replicas:
            answer = await self._ask(replica, request.scope["path"], request.headers.raw)
            if answer is not None and answer[0] == 200:
                return json.loads(answer[1])
        return None

    async def _ask(
        self, replica: FleetReplica, target: str, headers: list[tuple[bytes, bytes]]
    ) -> tuple[int, bytes] | None:
        try:
            async with (
                asyncio.timeout(ASK_S),
                self._upstream.request(replica, "GET", target, headers, b"", "edge", "edge") as answer,
            ):
                return answer.status, b"".join([piece async for piece in pieces(answer)])
        except ReplicaLost:
            replica.suspect()
        except (TimeoutError, RhapsodeError):
            log.warning("a replica did not answer", extra={"fields": {"replica": replica.id, "path": target}})
        return None


def _entries(answer: dict[str, Any] | None) -> list[dict[str, Any]]:
    return list(answer["data"]) if answer else []


def _once(entries: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns the first entry with each value of `key`."""
    first: dict[Any, dict[str, Any]] = {}
    for one in entries:
        first.setdefault(one[key], one)
    return list(first.values())
