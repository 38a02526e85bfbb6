"""`rhapsode config check`: all that is wrong with a deployment file, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

config = typer.Typer(name="config", help="Deployment files.", no_args_is_help=True)


@config.callback()
def _root() -> None:
    pass


@config.command()
def check(file: Annotated[Path, typer.Argument(help="A deployment file, as `serve --config` takes it.")]) -> None:
    """Check a deployment file: its keys, its values, its model."""
    from rhapsode.config import Deployment, layered, validated
    from rhapsode.config.pool import names_several, pooled
    from rhapsode.models.options import parse_settings
    from rhapsode.models.registry import described

    content = layered(file)
    if names_several(content):
        several = pooled(content, file)
        deployments = [several.deployment(name) for name in several.models]
    else:
        deployments = [validated(Deployment, content, file)]
    for deployment in deployments:
        spec, info = described(deployment.model)
        parse_settings(spec, deployment.options)
        typer.echo(f"{file} is fine: {deployment.model}, {info.summary}")
