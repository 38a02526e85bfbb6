"""Reports the steps of loading a model, and how long each took, through `logging`: a server logs them, a command shows
them."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rhapsode.device import compilations

LOGGER = "rhapsode.loading"
_log = logging.getLogger(LOGGER)
_start_log = logging.getLogger("rhapsode.start")


@dataclass
class LoadingStep:
    """A step that has begun."""

    name: str
    begun_s: float = field(default_factory=time.perf_counter)
    events: int = field(default_factory=compilations.count)
    spent_s: dict[str, float] = field(default_factory=compilations.spent_s)

    def log(self) -> None:
        """Logs how long it took, how many kernels and graphs it made, and what part of the time these took."""
        made = compilations.since(self.events)
        graphs = sum(event.startswith(compilations.CAPTURE) for event in made)
        counts = {"kernels": len(made) - graphs, "graphs": graphs}
        now_s = compilations.spent_s()
        parts_s = {f"{name}_s": round(now_s[name] - self.spent_s.get(name, 0.0), 2) for name in now_s}
        took(self.name, time.perf_counter() - self.begun_s, **{name: n for name, n in (counts | parts_s).items() if n})


class _CurrentStep(threading.local):
    """The current step of each thread: steps of one thread follow each other."""

    step: LoadingStep | None = None


_current = _CurrentStep()


def report(step: str) -> None:
    """Logs that a step begins, after the end of the step before it."""
    done()
    _log.info("loading", extra={"fields": {"step": step}})
    _current.step = LoadingStep(step)


def done() -> None:
    """Logs the end of the current step, if there is one."""
    ended, _current.step = _current.step, None
    if ended is not None:
        ended.log()


def took(step: str, seconds: float, **counts: float) -> None:
    """Logs how long a step of the start has taken."""
    _start_log.info("start-up", extra={"fields": {"step": f"'{step}'", "s": round(seconds, 2), **counts}})


def process_age_s() -> float:
    """Returns how long ago this process was started; 0 where the system does not tell."""
    try:
        after_name = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        up_s = float(Path("/proc/uptime").read_text("utf-8").split()[0])
        return up_s - int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
