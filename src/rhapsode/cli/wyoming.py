"""`rhapsode wyoming`: a server for Home Assistant."""

from __future__ import annotations

from typing import Annotated

import typer

from rhapsode.cli.serve import Config, Device, Model, run_server

WYOMING_PORT = 10_200

Host = Annotated[
    str, typer.Option(help="Where to listen for Wyoming; 0.0.0.0 is everywhere, and needs a network you trust.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The Wyoming port; 0 takes any free one.")]
Announce = Annotated[bool, typer.Option("--announce", help="Let Home Assistant find the port by itself (mDNS).")]
HttpPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="The HTTP port, on 127.0.0.1 by default. \\[default: 8000]")
]


def wyoming(
    model: Model = None,
    config: Config = None,
    host: Host = "127.0.0.1",
    port: Port = WYOMING_PORT,
    announce: Announce = False,
    http_port: HttpPort = None,
    device: Device = None,
) -> None:
    """Serve a model to Home Assistant, with the Wyoming protocol; HTTP is there, too."""
    server = {"port": http_port, "wyoming": {"host": host, "port": port, "announce": announce or None}}
    run_server(config, {"model": model, "device": device, "server": server})
