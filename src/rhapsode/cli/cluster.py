"""`rhapsode cluster`: several replicas and models behind one address, on Ray."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rhapsode.cluster.ray_environment import prepare_connection, prepare_start
from rhapsode.errors import MissingDependency
from rhapsode.extras import how_to_install

cluster = typer.Typer(name="cluster", help="Serve on a Ray cluster: replicas, several models.", no_args_is_help=True)

Address = Annotated[
    str | None, typer.Option(help="A running Ray cluster, such as auto or HOST:6379. \\[default: one on this machine]")
]


@cluster.command()
def serve(
    file: Annotated[Path, typer.Argument(help="A cluster file: models, replicas, server.", show_default=False)],
    address: Address = None,
    host: Annotated[str | None, typer.Option(help="Where to listen. \\[default: as the file says]")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free one.")] = None,
) -> None:
    """Serve the models of a file. A cluster on this machine ends with this command; a running one goes on."""
    from rhapsode.cluster.key_files import keys_in_files
    from rhapsode.config.cluster import read_cluster

    given: dict[str, Any] = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    config = read_cluster({"file": file, **({"server": given} if given else {})})
    if address is None:
        prepare_start()
    else:
        prepare_connection(address)
    run = _run()
    with keys_in_files(config) if address is None else nullcontext(config) as config:
        typer.echo(f"listening on {run.serve_cluster(config, address)}", err=True)
        typer.echo(f"ray cluster at {run.ray_address()}", err=True)
        for line in run.status_lines():
            typer.echo(line, err=True)
        if address is None:
            run.wait_for_signal()
            run.stop_serving()


@cluster.command()
def status(address: Address = None) -> None:
    """Show the models and their replicas."""
    prepare_connection(address)
    run = _run()
    run.connect(address)
    for line in run.status_lines():
        typer.echo(line)


@cluster.command()
def down(address: Address = None) -> None:
    """Drain and stop: running streams are spoken to their end, within the drain time-out."""
    prepare_connection(address)
    run = _run()
    run.connect(address)
    typer.echo("stopped" if run.stop_serving() else "nothing was deployed")


def _run() -> Any:
    try:
        from rhapsode.cluster import run
    except ModuleNotFoundError as error:
        raise MissingDependency(f"the cluster needs {error.name}: {how_to_install('cluster')}") from None
    return run
