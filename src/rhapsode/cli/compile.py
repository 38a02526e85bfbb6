"""`rhapsode compile`: fills the kernel cache, so that servers start fast; for images and before a first start."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Argument(help="A checkpoint's folder or Hugging Face id, or a family's name.", show_default=False)
]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Processes that compile at once. \\[default: cores less two]")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Say where the time of each process went.")]


def compile_kernels(
    model: Model = None, config: Config = None, processes: Processes = None, verbose: Verbose = False
) -> None:
    """Compile the GPU kernels of a deployment into Triton's cache (TRITON_CACHE_DIR), without serving it."""
    from rhapsode.config import resolve
    from rhapsode.engine import Source
    from rhapsode.errors import Unavailable
    from rhapsode.kernel_cache.compilation import compile_kernels as run
    from rhapsode.models.registry import find

    flags = {"model": model, "compile_processes": processes}
    deployment = resolve(config, flags={name: value for name, value in flags.items() if value is not None})
    found = find(deployment.model)
    started_s = time.perf_counter()
    source = Source(found.checkpoint, found.config)
    if not run(found.spec, source, deployment, typer.echo, again=True, detail=verbose):
        raise Unavailable("nothing to compile here: it takes a GPU, Triton and 'graphs: true'.")
    typer.echo(f"done in {time.perf_counter() - started_s:.0f} s.")
