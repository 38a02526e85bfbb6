"""One thread that gives turns to the stages of one device: no locks around device state."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rhapsode.engine.isolation import failure
from rhapsode.engine.stage import TurnStage


class Loop:
    """Runs its stages' turns until it is stopped; sleeps while none of them has anything to do."""

    def __init__(self, name: str, stages: Sequence[TurnStage]) -> None:
        self._stages = stages
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"rhapsode-{name}", daemon=True)
        for stage in stages:
            stage.inbox.on_put = self._wake.set

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            busy = False
            for stage in self._stages:
                busy |= self._turn(stage)
            if not busy:
                self._wake.wait(min((stage.poll_s for stage in self._stages if stage.poll_s), default=None))

    @staticmethod
    def _turn(stage: TurnStage) -> bool:
        try:
            return stage.turn()
        except Exception as error:  # a bug in a stage must not take the loop, and every other request, with it
            for job in stage.jobs():
                job.fail(failure(stage.name, error))
            return True
