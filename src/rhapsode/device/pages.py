"""KV pages: who owns which, and which are shared because their content is equal."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

Key = bytes


def page_keys(content: NDArray[Any] | None, page_size: int) -> list[Key]:
    """A key for each whole page of a prompt: a hash of everything from its first position to the page's end.

    The hash covers content (all codebooks, embeddings), never placeholder ids, so equal keys mean equal KV.
    """
    if content is None:
        return []
    keys: list[Key] = []
    digest = hashlib.blake2b(f"{content.dtype}{content.shape[1:]}".encode(), digest_size=16)
    for start in range(0, len(content) - page_size + 1, page_size):
        digest.update(content[start : start + page_size].tobytes())
        keys.append(digest.digest())
    return keys


class PagePool:
    """Hands out pages 1..n. Pages of a shared prefix are counted, and kept while there is room."""

    def __init__(self, pages: int) -> None:
        self.total = pages
        self._free = list(range(pages, 0, -1))
        self._owners = [0] * (pages + 1)
        self._key_of: dict[int, Key] = {}
        self._page_of: dict[Key, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # nobody's, content still good; oldest first
        self.shared_hits = 0

    @property
    def in_use(self) -> int:
        return self.total - len(self._free) - len(self._idle)

    def reserve(self, count: int, keys: Sequence[Key]) -> tuple[list[int], int] | None:
        """`count` pages, the leading ones shared where content is equal, and how many are; or None."""
        shared = []
        for key in keys[:count]:
            page = self._page_of.get(key)
            if page is None:
                break
            shared.append(page)
        fresh = count - len(shared)
        idle_shared = sum(1 for page in shared if self._owners[page] == 0)
        if fresh > len(self._free) + len(self._idle) - idle_shared:
            return None
        for page in shared:
            self._idle.pop(page, None)
            self._owners[page] += 1
        self.shared_hits += len(shared)
        return shared + [self._take() for _ in range(fresh)], len(shared)

    def publish(self, page: int, key: Key) -> None:
        """This page now holds the content of `key`; the first page to say so is the one that is shared."""
        if key not in self._page_of and page not in self._key_of:
            self._page_of[key] = page
            self._key_of[page] = key

    def free(self, pages: Sequence[int]) -> None:
        for page in pages:
            self._owners[page] -= 1
            if self._owners[page] == 0:
                if page in self._key_of:
                    self._idle[page] = None
                else:
                    self._free.append(page)

    def _take(self) -> int:
        if self._free:
            page = self._free.pop()
        else:
            page, _ = self._idle.popitem(last=False)
            del self._page_of[self._key_of.pop(page)]
        self._owners[page] = 1
        return page
