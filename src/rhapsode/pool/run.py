"""Serves several models behind one address, until a signal ends it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping

from rhapsode.alignment.loading import aligned_languages
from rhapsode.config import Deployment
from rhapsode.config.pool import PoolConfig
from rhapsode.edge import buffers
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.models.registry import Model, find
from rhapsode.pool.memory import expected_bytes
from rhapsode.pool.metrics import PoolMetrics
from rhapsode.pool.model_pool import ModelPool, PoolSource
from rhapsode.pool.server import PoolServer
from rhapsode.serve.description import description
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.server import authority, listen
from rhapsode.text.lexicon import Lexicon

log = logging.getLogger("rhapsode.pool")


def serve(config: PoolConfig) -> None:
    """Serves until a signal stops it."""
    configure(config.server.log_format)
    found = {name: _found(config.deployment(name)) for name in config.models}
    listener = listen(config.server.host, config.server.port)
    buffers.to_clients(listener)
    _print_resolved(config, listener.getsockname()[1])
    server = pool_server(config, found)
    with contextlib.suppress(KeyboardInterrupt):
        server.run([listener])
    if server.failed:
        raise server.failed


def pool_server(config: PoolConfig, found: Mapping[str, Model]) -> PoolServer:
    """Returns the server of these models, with a pool that has loaded none of them."""
    sizes = {name: expected_bytes(model.checkpoint) for name, model in found.items()}
    if too_small := too_little_memory(config, sizes):
        log.warning(too_small)
    pool = ModelPool(config, sizes)
    fleet = Fleet({name: _fleet_of(name, model, pool, config) for name, model in found.items()})
    pool.on_change = lambda name: fleet.models[name].poll_soon()
    return PoolServer(Edge(config, fleet, PoolMetrics(pool)), pool, fleet, config)


def too_little_memory(config: PoolConfig, sizes: Mapping[str, int]) -> str:
    """Returns a warning if pinned models alone will probably take more than `memory_bytes`; else nothing."""
    pinned = sum(sizes[name] for name, model in config.models.items() if model.pinned)
    if config.memory_bytes is None or pinned <= config.memory_bytes:
        return ""
    given, needed = (f"{size / 1e9:.1f} GB" for size in (config.memory_bytes, pinned))
    return f"memory_bytes is {given}, and the pinned models alone take about {needed}: they are loaded all the same"


def _found(deployment: Deployment) -> Model:
    model = find(deployment.model)
    model.check_checkpoint()
    return model


def _fleet_of(name: str, model: Model, pool: ModelPool, config: PoolConfig) -> ModelFleet:
    deployment = config.deployment(name)
    words, languages = len(Lexicon.read(deployment.lexicon).entries), aligned_languages(deployment.alignment)
    about = description(model.info(), model.spec, deployment, words, languages)
    return ModelFleet(name, PoolSource(pool, name), config.cold_start_s, config.max_waiting, about)


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
