"""Keeps the keys of clients in files that only this user can read, for the processes of a cluster on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rhapsode.config.cluster import ClusterConfig
from rhapsode.config.server import ServerConfig

VARIABLE = "RHAPSODE_SERVER__API_KEYS"


@contextmanager
def keys_in_files(config: ClusterConfig) -> Iterator[ClusterConfig]:
    """Yields the same cluster, whose keys are in files while the context is open.

    Processes that are started meanwhile do not find keys in their environment either.
    """
    kept = os.environ.pop(VARIABLE, None)
    try:
        with tempfile.TemporaryDirectory(prefix="rhapsode-") as folder:  # mode 0700
            models = {}
            for number, (name, model) in enumerate(config.models.items()):
                server = _moved(model.deployment.server, Path(folder, f"model-{number}"))
                deployment = model.deployment.model_copy(update={"server": server})
                models[name] = model.model_copy(update={"deployment": deployment})
            server = _moved(config.server, Path(folder, "all"))
            yield config.model_copy(update={"models": models, "server": server})
    finally:
        if kept is not None:
            os.environ[VARIABLE] = kept


def _moved(server: ServerConfig, file: Path) -> ServerConfig:
    if server.api_keys_file is not None:
        return server.model_copy(update={"api_keys_file": server.api_keys_file.expanduser().absolute()})
    if not server.api_keys:
        return server
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as opened:
        opened.writelines(f"{line}\n" for line in server.key_lines())
    return server.model_copy(update={"api_keys_file": file})
