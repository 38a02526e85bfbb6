"""Reports the steps of loading a model through `logging`: a server logs them, a command shows them."""

from __future__ import annotations

import logging

LOGGER = "rhapsode.loading"
_log = logging.getLogger(LOGGER)


def report(step: str) -> None:
    """Says which step begins."""
    _log.info("loading", extra={"fields": {"step": step}})
