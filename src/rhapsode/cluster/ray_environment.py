"""What Ray reads from the environment when it is imported."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from rhapsode.errors import Unavailable

TOKEN_FILE = "~/.ray/auth_token"  # where Ray's own commands look for it
LOOPBACK = ("127.0.0.1", "localhost")
NODES_ON_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, nodes have the address 127.0.0.1, and Ray binds to it: on all systems, whatever the name says."""


def prepare_start() -> None:
    """Sets the variables for a cluster that is started on this machine, for this machine alone."""
    _prepare()
    os.environ[NODES_ON_LOOPBACK] = "0"
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN" not in os.environ:
        _write_token(_token_file())


def prepare_connection(address: str | None) -> None:
    """Sets the variables to connect to a running cluster, with the token of this user if there is one.

    Ray takes 127.0.0.1 in an address for the machine's other one, where a cluster of `prepare_start` is not found.
    """
    _prepare()
    if "RAY_AUTH_TOKEN" in os.environ or _token_file().exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    host, _, port = (address or "auto").rpartition(":")
    if not host or (host in LOOPBACK and port.isdecimal() and not _listens_outside(int(port))):
        os.environ.setdefault(NODES_ON_LOOPBACK, "0")


def _prepare() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def _token_file() -> Path:
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or TOKEN_FILE).expanduser()


def _listens_outside(port: int) -> bool:
    """Returns whether the port is open on the address by which this machine reaches others. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect(("192.0.2.1", 9))
            own = route.getsockname()[0]
        with socket.create_connection((own, port), timeout=1):
            return True
    except OSError:
        return False


def _write_token(file: Path) -> None:
    """Writes a new token if there is none: whole or not at all, readable by this user alone, as Ray's is not."""
    if file.exists():
        return
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, written = tempfile.mkstemp(dir=file.parent)  # mode 0600
        try:
            with open(descriptor, "w", encoding="ascii") as opened:
                opened.write(secrets.token_hex(32))
            with suppress(FileExistsError):  # another command was faster
                os.link(written, file)
        finally:
            os.unlink(written)
    except OSError as error:
        raise Unavailable(
            f"Ray's token cannot be written to {file}: {error.strerror}. Name another file in RAY_AUTH_TOKEN_PATH."
        ) from None
