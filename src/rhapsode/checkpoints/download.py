"""Downloads files of the hub in threads that do not keep Ctrl-C waiting; a download goes on where it stopped."""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress

from rhapsode.checkpoints.listing import SMALL_BYTES, RemoteListing
from rhapsode.checkpoints.resume import fetch_blob

THREADS = 4
TICK_S = 0.2


def download(listing: RemoteListing) -> None:
    """Fetches the files that are missing into the local cache; raises the first error."""
    left = deque(listing.missing)
    errors: list[BaseException] = []
    arrived: list[int] = []

    def work() -> None:
        from huggingface_hub import hf_hub_download

        while left and not errors:
            try:
                file = left.popleft()
                if file.size > SMALL_BYTES:
                    with suppress(OSError):  # then the hub's client does it, or says what is wrong
                        fetch_blob(listing.owner_name, file.name, listing.commit, arrived.append)
                hf_hub_download(listing.owner_name, file.name, revision=listing.commit)
            except IndexError:
                return
            except BaseException as error:
                errors.append(error)

    # The client's own pool of threads would finish its files before the process can end.
    threads = [threading.Thread(target=work, name="download", daemon=True) for _ in range(min(THREADS, len(left)))]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(TICK_S)
            _show(sum(arrived), listing)
            threads = [thread for thread in threads if thread.is_alive()] or threads[:1]
    except KeyboardInterrupt as interrupt:
        errors.append(interrupt)
        raise
    if errors:
        raise errors[0]


def _show(count: int, listing: RemoteListing) -> None:
    """Shows on a terminal how much of the large files is there."""
    size = sum(file.size for file in listing.missing if file.size > SMALL_BYTES)
    if size and sys.stderr.isatty():
        end = "\n" if count >= size else ""
        print(f"\r{count / 1e9:.2f} of {size / 1e9:.2f} GB", end=end, file=sys.stderr, flush=True)
