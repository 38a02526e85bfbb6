"""Caches results computed from a reference, by its content. Concurrent requests compute a result only once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


def content_key(*parts: bytes | str) -> bytes:
    """Returns a key that is equal only for equal parts, including their types and lengths."""
    digest = blake2b(digest_size=32)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%b%d:" % (b"s" if isinstance(part, str) else b"b", len(data)))
        digest.update(data)
    return digest.digest()


@dataclass(frozen=True)
class CacheStats:
    hits: int
    """Cache hits, including requests that waited for the computation of another request."""
    misses: int
    bytes: int
    entries: int


class ReferenceCache:
    """A least-recently-used cache of up to `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._in_flight: dict[bytes, Future[Any]] = {}
        self._bytes = self._hits = self._misses = 0

    def get_or_make(self, key: bytes, make: Callable[[], tuple[T, int]]) -> T:
        """Returns the value for `key`; if there is none, `make` returns it and its size in bytes.

        Concurrent callers wait for the same result or exception; exceptions are not cached.
        """
        with self._lock:
            if key in self._kept:
                self._hits += 1
                self._kept.move_to_end(key)
                found: T = self._kept[key][0]
                return found
            flight = self._in_flight.get(key)
            if flight is None:
                self._misses += 1
                flight = self._in_flight[key] = Future()
                mine = True
            else:
                self._hits += 1
                mine = False
        if mine:
            self._make(key, make, flight)
        result: T = flight.result()
        return result

    def __contains__(self, key: bytes) -> bool:
        """Whether `get_or_make` would return a value at once."""
        with self._lock:
            return key in self._kept

    def stats(self) -> CacheStats:
        with self._lock:
            return CacheStats(self._hits, self._misses, self._bytes, len(self._kept))

    def _make(self, key: bytes, make: Callable[[], tuple[T, int]], flight: Future[T]) -> None:
        try:
            value, size = make()
            if size < 0:
                raise ValueError(f"a value cannot have {size} bytes")
        except BaseException as error:
            with self._lock:
                del self._in_flight[key]
            flight.set_exception(error)
            return
        with self._lock:
            self._keep(key, value, size)
            del self._in_flight[key]
        flight.set_result(value)

    def _keep(self, key: bytes, value: object, size: int) -> None:
        if size > self._max_bytes:
            return
        while self._bytes + size > self._max_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
        self._kept[key] = (value, size)
        self._bytes += size


class Remembered:
    """A function of samples whose results are cached by content."""

    def __init__(
        self, name: str, function: Callable[[NDArray[np.float32]], NDArray[Any]], cache: ReferenceCache
    ) -> None:
        self._name = name
        self._function = function
        self._cache = cache

    def __call__(self, samples: NDArray[np.float32]) -> NDArray[Any]:
        def make() -> tuple[NDArray[Any], int]:
            made = self._function(samples)
            return made, made.nbytes

        return self._cache.get_or_make(content_key(self._name, samples.tobytes()), make)
