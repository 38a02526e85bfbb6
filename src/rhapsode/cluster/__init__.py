"""The server on a Ray cluster: several replicas and models behind one address. Needs the extra `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rhapsode.config.cluster import read_cluster

if TYPE_CHECKING:
    from ray.serve import Application

__all__ = ["build"]


def build(args: Mapping[str, Any]) -> Application:
    """Returns the application for `serve run rhapsode.cluster:build file=cluster.yaml`, or for a RayService manifest.

    The arguments are the keys of a cluster file, or `file`, its path.
    """
    from rhapsode.cluster.application import build_application

    return build_application(read_cluster(args))
