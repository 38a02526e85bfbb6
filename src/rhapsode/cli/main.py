"""`rhapsode`: the way in, and where errors become one clear sentence."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from rhapsode import __version__
from rhapsode.cli.bench import bench
from rhapsode.cli.doctor import doctor
from rhapsode.cli.models import models
from rhapsode.cli.say import say
from rhapsode.cli.serve import serve
from rhapsode.errors import InvalidRequest, RhapsodeError

UsageError: Any = typer.BadParameter.__base__  # typer has carried click inside, and beside, itself
app = typer.Typer(
    name="rhapsode",
    help="Neural text-to-speech: exact, fast, for many listeners at once.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(say)
app.command()(models)
app.command()(doctor)
app.add_typer(bench)


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
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except UsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        print(f"rhapsode: {message} (--help tells what there is).", file=sys.stderr)
        sys.exit(2)
    except RhapsodeError as error:
        print(f"rhapsode: {error.message}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InvalidRequest) else 1)
    except (KeyboardInterrupt, typer.Abort):
        print("rhapsode: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
