"""The page pool: which pages are in use, free, or shared because their content is equal."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Key = bytes


def page_keys(content: NDArray[Any] | None, page_size: int, columns: int = 0, brief: int = 0) -> list[Key]:
    """Returns a key for each whole page of a prompt: a hash of everything from the first position to the page's end.

    It covers content (all codebooks, embeddings), never placeholder ids: equal keys mean equal keys and values.
    In the first `brief` positions only the first `columns` columns can differ, so only these are hashed there.
    """
    if content is None:
        return []
    keys: list[Key] = []
    digest = hashlib.blake2b(f"{content.dtype.str}{content.shape[1:]}".encode(), digest_size=16)
    for stop in range(page_size, len(content) + 1, page_size):
        page = content[stop - page_size : stop]
        digest.update(b"brief" + page[:, :columns].tobytes() if stop <= brief else page.tobytes())
        keys.append(digest.digest())
    return keys


class PagePool:
    """Hands out pages 1..n. A shared page has several owners; one without an owner keeps its content until evicted."""

    def __init__(self, pages: int) -> None:
        self.total = pages
        self._free = list(range(pages, 0, -1))
        self._sharers: Counter[int] = Counter()  # owners of a page after its first
        self._key_of: dict[int, Key] = {}
        self._page_of: dict[Key, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # without an owner, content still valid; oldest first
        self.shared_hits = 0

    @property
    def in_use(self) -> int:
        return self.total - self.available

    @property
    def available(self) -> int:
        """How many pages have no owner: they are free, or are evicted when they are needed."""
        return len(self._free) + len(self._idle)

    def cost(self, count: int, keys: Sequence[Key]) -> int:
        """Returns how many of the available pages `reserve` would take."""
        return self._cost(count, self._shared(count, keys))

    def _cost(self, count: int, shared: Sequence[int]) -> int:
        return count - sum(1 for page in shared if page not in self._idle)

    def reserve(self, count: int, keys: Sequence[Key]) -> tuple[list[int], int] | None:
        """Returns `count` pages and how many of them, from the front, are shared; None if there are not enough."""
        shared = self._shared(count, keys)
        if self._cost(count, shared) > self.available:
            return None
        for page in shared:
            if page in self._idle:
                del self._idle[page]
            else:
                self._sharers[page] += 1
        self.shared_hits += len(shared)
        return shared + self._take(count - len(shared)), len(shared)

    def publish(self, page: int, key: Key) -> None:
        """Offers a page, which now holds the content of `key`, for sharing, unless a page with it is offered."""
        if key not in self._page_of and page not in self._key_of:
            self._page_of[key] = page
            self._key_of[page] = key

    def free(self, pages: Sequence[int]) -> None:
        for page in reversed(pages):  # reversed, so that a request's first pages are reused first
            if page not in self._key_of:
                self._free.append(page)
            elif self._sharers[page]:
                self._sharers[page] -= 1
            else:
                self._idle[page] = None

    def evict(self, kept: int) -> None:
        """Frees all pages without an owner, except the `kept` that were used last."""
        while len(self._idle) > kept:
            self._free.append(self._evict())

    def free_runs(self) -> list[tuple[int, int]]:
        """Returns where the free pages are: the first of each run of them, and the page after its last."""
        free = np.sort(np.array(self._free, np.int64))
        runs = np.split(free, np.flatnonzero(np.diff(free) > 1) + 1)
        return [(int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]

    def _shared(self, count: int, keys: Sequence[Key]) -> list[int]:
        """Returns the pages that hold the content of the first keys already, up to the first key without a page."""
        found = []
        for key in keys[:count]:
            page = self._page_of.get(key)
            if page is None:
                break
            found.append(page)
        return found

    def _take(self, count: int) -> list[int]:
        """Takes free pages, the one that was freed last first, and then the oldest of those without an owner."""
        kept = max(0, len(self._free) - count)
        pages = self._free[kept:][::-1]
        del self._free[kept:]
        while len(pages) < count:
            pages.append(self._evict())
        return pages

    def _evict(self) -> int:
        """Forgets the content of the page that has been without an owner for longest, and returns the page."""
        page, _ = self._idle.popitem(last=False)
        del self._page_of[self._key_of.pop(page)]
        return page
