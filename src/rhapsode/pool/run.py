"""Serves several models behind one address, until a signal ends it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping

from rhapsode.alignment.loading import aligned_languages
from rhapsode.config.pool import PoolConfig
from rhapsode.edge import buffers
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.models.registry import described
from rhapsode.models.spec import ModelSpec
from rhapsode.pool.metrics import PoolMetrics
from rhapsode.pool.model_pool import ModelPool, PoolSource
from rhapsode.pool.server import PoolServer
from rhapsode.serve.description import description
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.ports import Ports
from rhapsode.serve.server import authority
from rhapsode.serve.voice_list import preset_voices
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import ModelInfo

Described = tuple[ModelSpec, ModelInfo]


def serve(config: PoolConfig, ports: Ports) -> None:
    """Serves until a signal stops it."""
    configure(config.server.log_format)
    found = {name: described(config.deployment(name).model) for name in config.models}
    ports.listen()
    buffers.to_clients(ports.http)
    _print_resolved(config, ports.http.getsockname()[1])
    server = pool_server(config, found)
    with contextlib.suppress(KeyboardInterrupt):
        server.run([ports.http])
    if server.failed:
        raise server.failed


def pool_server(config: PoolConfig, found: Mapping[str, Described]) -> PoolServer:
    """Returns the server of these models, with a pool that has loaded none of them."""
    pool = ModelPool(config)
    fleet = Fleet({name: _fleet_of(name, about, pool, config) for name, about in found.items()})
    pool.on_change = lambda name: fleet.models[name].poll_soon()
    return PoolServer(Edge(config, fleet, PoolMetrics(pool)), pool, fleet, config)


def _fleet_of(name: str, found: Described, pool: ModelPool, config: PoolConfig) -> ModelFleet:
    deployment, (spec, info) = config.deployment(name), found
    words, languages = len(Lexicon.read(deployment.lexicon).entries), aligned_languages(deployment.alignment)
    about = description(info, spec, deployment, words, languages)
    return ModelFleet(name, PoolSource(pool, name), config.cold_start_s, config.max_waiting, about, preset_voices(info))


def _print_resolved(config: PoolConfig, port: int) -> None:
    server = config.server
    keys = f"{len(server.api_keys)}" if server.api_keys else "none: whoever can connect can speak"
    most = config.most_loaded or "as many as fit into memory"
    lines = [
        ("listening", f"http://{authority(server.host, port)}  (docs: /docs, page: /)"),
        *(("model", f"{name}: {_when(config, name)}") for name in config.models),
        ("loaded", f"{most} at once"),
        ("api keys", keys),
    ]
    for name, value in lines:
        print(f"{name:>10}  {value}", file=sys.stderr, flush=True)


def _when(config: PoolConfig, name: str) -> str:
    loaded = "loaded now" if config.loads_at_start(name) else "loaded by its first request"
    idle_s = config.deployment(name).server.idle_unload_s
    if config.models[name].pinned:
        return f"{loaded}, and always there"
    return f"{loaded}, unloaded after {idle_s:g} s idle" if idle_s is not None else loaded
