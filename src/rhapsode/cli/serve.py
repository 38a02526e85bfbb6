"""`rhapsode serve`: the OpenAI speech API, on a port."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rhapsode.errors import ConfigError, MissingDependency
from rhapsode.extras import how_to_install
from rhapsode.serve.process.spawn import spawn_early

if TYPE_CHECKING:
    from rhapsode.config import Deployment
    from rhapsode.serve.ports import Ports
    from rhapsode.serve.process.spawn import SpawnedProcess

Model = Annotated[
    str | None, typer.Argument(help="A checkpoint's folder or Hugging Face id, or a family's name.", show_default=False)
]
Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL]...",
        help="A checkpoint's folder or Hugging Face id, or a family's name. Several are served beside each other, each "
        "loaded by its first request, the first one at once.",
        show_default=False,
    ),
]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]
Host = Annotated[str | None, typer.Option(help="Where to listen; 0.0.0.0 is everywhere. \\[default: 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free one. \\[default: 8000]")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Concurrency = Annotated[str | None, typer.Option(help="Requests spoken at once: a number, or auto.")]
Unload = Annotated[float | None, typer.Option("--idle-unload", help="Unload the model after this many idle seconds.")]
LexiconFile = Annotated[Path | None, typer.Option("--lexicon", help="A YAML file of words and their respellings.")]
Debug = Annotated[bool, typer.Option("--debug", help="Report what keeps the event loop busy for 20 ms or more.")]
WyomingPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Also speak the Wyoming protocol there, for Home Assistant: 10200."),
]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="text or json.")]


def serve(
    models: Models = None,
    config: Config = None,
    host: Host = None,
    port: Port = None,
    device: Device = None,
    max_concurrency: Concurrency = None,
    lexicon: LexiconFile = None,
    idle_unload: Unload = None,
    wyoming_port: WyomingPort = None,
    log_format: LogFormat = None,
    debug: Debug = False,
) -> None:
    """Serve a model or several: HTTP, SSE and WebSocket, for clients of OpenAI's speech API."""
    server: dict[str, Any] = {"host": host, "port": port, "idle_unload_s": idle_unload, "log_format": log_format}
    server |= {"debug": True if debug else None, "wyoming": {"port": wyoming_port}}
    flags: dict[str, Any] = {"device": device, "limits": {"max_concurrency": max_concurrency}}
    flags["lexicon"] = lexicon
    names = models or []
    flags["model"] = names[0] if len(names) == 1 else None
    run_server(config, {**flags, "server": server}, names if len(names) > 1 else ())


def run_server(config: Path | None, flags: dict[str, Any], models: Sequence[str] = ()) -> None:
    """Serves with a deployment file and flags; flags that are None are ignored. `models` is for several models."""
    named = {"models": dict.fromkeys(models)} if models else {}
    gc.disable()  # it takes a tenth of the time of all imports; it is enabled again once the model is loaded
    early = spawn_early(flags.get("device"))
    try:
        from rhapsode.serve.memory import use_one_heap
        from rhapsode.serve.ports import take_ports

        use_one_heap()
        from rhapsode.cli.config_problems import checked
        from rhapsode.config import Deployment, layered
        from rhapsode.config.cluster import is_about_cluster
        from rhapsode.config.pool import PoolConfig

        content = layered(config, flags={**_given(flags), **named})
        if is_about_cluster(content):
            raise ConfigError(f"{config} is about a cluster: rhapsode cluster serve {config}")
        found = checked(content, config, asks_hub=False).config
        ports = take_ports(found.server)
    except BaseException:
        if early is not None:
            early.kill()
        raise
    if isinstance(found, Deployment):
        _serve_one(found, ports, early)
        return
    assert isinstance(found, PoolConfig)
    if early is not None:
        early.kill()
    try:
        from rhapsode.pool.run import serve as run
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    run(found, ports)
    _leave()


def _serve_one(deployment: Deployment, ports: Ports, early: SpawnedProcess | None) -> None:
    from rhapsode.serve.process.engine_process import begin

    process = begin(deployment, early)
    try:
        from rhapsode.serve.server import serve as run
    except ModuleNotFoundError as error:
        if process is not None:
            process.end()
        raise _missing(error) from None
    run(deployment, ports, process)
    _leave()


def _leave() -> NoReturn:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is closed; to take a model and its libraries apart, Python would need seconds


def _missing(error: ModuleNotFoundError) -> MissingDependency:
    return MissingDependency(f"the server needs {error.name}: {how_to_install('serve')}")


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """Returns the flags that the user set; only these override a file."""
    nested = {name: _given(value) if isinstance(value, dict) else value for name, value in flags.items()}
    return {name: value for name, value in nested.items() if value is not None and value != {}}
