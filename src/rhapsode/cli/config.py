"""`rhapsode config check`: all that is wrong with a deployment or cluster file, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

config = typer.Typer(name="config", help="Deployment files.", no_args_is_help=True)


@config.callback()
def _root() -> None:
    pass


@config.command()
def check(
    file: Annotated[Path, typer.Argument(help="As `serve --config` or `cluster serve` takes it.")],
) -> None:
    """Check a deployment or cluster file: keys, values, models, options, and the files that it names."""
    from rhapsode.cli.config_problems import checked
    from rhapsode.config import layered

    models = checked(layered(file), file).models
    about = [f"{model.name}, {model.info.summary if model.info else 'not known'}" for model in models]
    if len(about) > 1:
        for line in about:
            typer.echo(line)
    typer.echo(f"{file} is fine: {about[0] if len(about) == 1 else f'{len(about)} models'}")
