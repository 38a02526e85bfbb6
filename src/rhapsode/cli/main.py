"""`rhapsode`: the command line. Errors end in one sentence, never in a traceback."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from rhapsode import __version__
from rhapsode.cli import capacity, published  # noqa: F401
from rhapsode.cli.bench import bench
from rhapsode.cli.cluster import cluster
from rhapsode.cli.compile import compile_kernels
from rhapsode.cli.config import config
from rhapsode.cli.detect import detect
from rhapsode.cli.doctor import doctor
from rhapsode.cli.models import models
from rhapsode.cli.new_family import new_family
from rhapsode.cli.say import say
from rhapsode.cli.serve import serve
from rhapsode.cli.verify import verify
from rhapsode.cli.voices import voices
from rhapsode.cli.wyoming import wyoming
from rhapsode.errors import IgnoredWarning, InvalidRequest, RhapsodeError

UsageError: Any = typer.BadParameter.__base__  # typer may bundle click or depend on it
app = typer.Typer(
    name="rhapsode",
    help="Neural text-to-speech: exact streaming, continuous batching, the OpenAI speech API.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(wyoming)
app.command()(say)
app.command()(detect)
app.command()(models)
app.command()(voices)
app.command()(doctor)
app.command()(verify)
app.command()(new_family)
app.command("compile")(compile_kernels)
app.add_typer(bench)
app.add_typer(cluster)
app.add_typer(config)


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


_show_any_warning = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgnoredWarning):
        print(f"rhapsode: {message}", file=sys.stderr)
    else:
        _show_any_warning(message, category, *where, **more)


def main() -> None:
    """Runs a command. An error that a user can cause becomes one sentence on standard error and an exit status."""
    warnings.showwarning = _show_warning
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], prog_name="rhapsode", standalone_mode=False))
    except UsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        print(f"rhapsode: {message} (see --help).", file=sys.stderr)
        sys.exit(2)
    except RhapsodeError as error:
        print("\n".join(f"rhapsode: {line}" for line in error.message.splitlines()), file=sys.stderr)
        sys.exit(2 if isinstance(error, InvalidRequest) else 1)
    except (KeyboardInterrupt, typer.Abort):
        print("rhapsode: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
