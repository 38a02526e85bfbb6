"""Asks Ray for the replicas of a model."""

from __future__ import annotations

from collections.abc import Sequence

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from rhapsode.edge.report import ReplicaReport

ANSWER_S = 10.0
"""How long to wait for the replicas' reports. Ray's health check decides whether a silent replica is dead."""


class RaySource:
    """The replicas of one deployment, by its handle."""

    loading_since_s = None

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def reports(self) -> Sequence[ReplicaReport] | None:
        """Returns the reports of all running replicas; None if one of them did not answer in time."""
        try:
            answers = await self._handle.broadcast("report").results_async(timeout_s=ANSWER_S, return_exceptions=True)
        except TimeoutError:
            return None
        except (RayServeException, RayError):  # there is no replica
            return []
        return [answer for answer in answers if isinstance(answer, ReplicaReport)]

    async def wake(self) -> bool:
        """Makes a call that waits for a replica, so that Ray starts one for a model without replicas.

        Returns false if Ray has given up, because no replica could be started.
        """
        try:
            await self._handle.report.remote()
        except RayServeException:
            return False
        except RayError:  # the replica died, and Ray starts another one
            return True
        return True
