"""`rhapsode`: the way in, and where errors become one clear sentence."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rhapsode import __version__
from rhapsode.cli.doctor import doctor
from rhapsode.cli.models import models
from rhapsode.cli.say import say
from rhapsode.errors import InvalidRequest, RhapsodeError

app = typer.Typer(
    name="rhapsode",
    help="Neural text-to-speech: exact, fast, for many listeners at once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(say)
app.command()(models)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rhapsode {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command; whatever a user can cause ends in one sentence and a non-zero exit."""
    try:
        app()
    except RhapsodeError as error:
        print(f"rhapsode: {error.message}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InvalidRequest) else 1)
    except KeyboardInterrupt:
        print("rhapsode: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
