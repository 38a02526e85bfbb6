"""The page pool: which pages are in use, free, or shared because their content is equal."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

Key = bytes


def page_keys(content: NDArray[Any] | None, page_size: int, columns: int = 0, brief: int = 0) -> list[Key]:
    """Returns a key for each whole page of a prompt: a hash of everything from the first position to the page's end.

    It covers content (all codebooks, embeddings), never placeholder ids: equal keys mean equal keys and values.
    The first `columns` alone decide the first `brief` positions: only they are hashed there.
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
    """Hands out pages 1..n. Shared pages have several owners; unused ones are kept until they are evicted."""

    def __init__(self, pages: int) -> None:
        self.total = pages
        self._free = list(range(pages, 0, -1))
        self._owners = [0] * (pages + 1)
        self._key_of: dict[int, Key] = {}
        self._page_of: dict[Key, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # without an owner, content still valid; oldest first
        self.shared_hits = 0

    @property
    def in_use(self) -> int:
        return self.total - self.available

    @property
    def available(self) -> int:
        """Pages without an owner: free, or evicted when they are needed."""
        return len(self._free) + len(self._idle)

    def cost(self, count: int, keys: Sequence[Key]) -> int:
        """Returns how many of the available pages `reserve` would take."""
        return count - sum(1 for page in self._shared(count, keys) if self._owners[page])

    def reserve(self, count: int, keys: Sequence[Key]) -> tuple[list[int], int] | None:
        """Returns `count` pages and how many of them, from the front, are shared; None if there are not enough."""
        if self.cost(count, keys) > self.available:
            return None
        shared = self._shared(count, keys)
        fresh = count - len(shared)
        for page in shared:
            self._idle.pop(page, None)
            self._owners[page] += 1
        self.shared_hits += len(shared)
        return shared + [self._take() for _ in range(fresh)], len(shared)

    def publish(self, page: int, key: Key) -> None:
        """Offers a page for sharing: it holds the content of `key` now. The first page with this content is used."""
        if key not in self._page_of and page not in self._key_of:
            self._page_of[key] = page
            self._key_of[page] = key

    def free(self, pages: Sequence[int]) -> None:
        for page in reversed(pages):  # the first pages of a request are written first: they are given out again first
            self._owners[page] -= 1
            if self._owners[page] == 0:
                if page in self._key_of:
                    self._idle[page] = None
                else:
                    self._free.append(page)

    def _shared(self, count: int, keys: Sequence[Key]) -> list[int]:
        """The pages that have the content of the first keys already."""
        found = []
        for key in keys[:count]:
            page = self._page_of.get(key)
            if page is None:
                break
            found.append(page)
        return found

    def _take(self) -> int:
        if self._free:
            page = self._free.pop()
        else:
            page, _ = self._idle.popitem(last=False)
            del self._page_of[self._key_of.pop(page)]
        self._owners[page] = 1
        return page
