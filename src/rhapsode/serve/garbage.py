"""Makes garbage collection rare in a server: a collection holds the interpreter's lock and scans all requests.

Most objects of a request are freed without it, with their last reference. With Python's default thresholds a server
with 192 listeners collected 1,400 times for 1,536 requests, which blocked its event loop for half a millisecond each.
"""

from __future__ import annotations

import gc

THRESHOLDS = (50_000, 20, 20)
"""Thresholds of the three generations: how many new objects start a collection of the youngest generation, how many of
those collections start one of the middle generation, and how many of the latter start a full collection."""


def collect_rarely() -> None:
    """Enables garbage collection with the thresholds of a server. To be called when a model has been loaded, or when a
    server that has none itself has started.

    What is there then stays for long, and is not scanned: a full collection of it would take 50 to 100 ms in whatever
    callback of the event loop starts it.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
