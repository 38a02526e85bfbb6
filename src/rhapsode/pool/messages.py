"""What a server with several models and the process of one model tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.config import Deployment
from rhapsode.edge.report import ReplicaReport
from rhapsode.errors import RhapsodeError


@dataclass(frozen=True)
class Serve:
    """The first message: what to serve."""

    deployment: Deployment


@dataclass(frozen=True)
class Leave:
    """The process should end, if nobody uses it."""


@dataclass(frozen=True)
class End:
    """The process should finish what runs, and end."""


@dataclass(frozen=True)
class Serving:
    """The model is loaded, and this is its state."""

    report: ReplicaReport
    in_use: int
    """Requests and WebSockets."""
    used_s: float
    """When the last request ended, on the machine's monotonic clock."""
    memory_bytes: int


@dataclass(frozen=True)
class Stays:
    """The answer to `Leave` of a process that is in use."""


@dataclass(frozen=True)
class CannotLoad:
    error: RhapsodeError
