"""Stores phrases in memory or in a folder, up to a number of bytes. The least recently used are evicted first."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from rhapsode.errors import ConfigError
from rhapsode.serve.phrases.phrase import BrokenPhrase, Phrase

log = logging.getLogger("rhapsode.serve")

_SUFFIX, _TEMPORARY = ".phrase", ".tmp"
_MOST_UNWRITTEN = 16
_ABANDONED_S = 60.0
"""A temporary file this old is of a process that has crashed: writing a phrase takes milliseconds."""


class PhraseStore(Protocol):
    """Keeps phrases by key. May be called from any thread."""

    def get(self, key: str) -> Phrase | None: ...

    def put(self, key: str, phrase: Phrase) -> None: ...

    @property
    def bytes(self) -> int: ...

    def flush(self) -> None:
        """Waits until all phrases that were put are written."""


class PhrasesInMemory:
    """Keeps phrases until the process ends."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._phrases: OrderedDict[str, Phrase] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: str) -> Phrase | None:
        with self._lock:
            if key in self._phrases:
                self._phrases.move_to_end(key)
            return self._phrases.get(key)

    def put(self, key: str, phrase: Phrase) -> None:
        with self._lock:
            before = self._phrases.pop(key, None)
            self._phrases[key] = phrase
            self.bytes += phrase.size - (before.size if before else 0)
            while self.bytes > self._most:
                self.bytes -= self._phrases.popitem(last=False)[1].size

    def flush(self) -> None: ...


class PhrasesInFolder:
    """Keeps phrases as files, which outlive the process. Replicas may share the folder.

    A file is written under a temporary name first, so that no reader finds half of it. A damaged file is deleted.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder.expanduser(), most_bytes
        self._lock = threading.Lock()
        self._unwritten: dict[str, Phrase] = {}
        self._writer = ThreadPoolExecutor(1, "rhapsode-phrases")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._clean_up()
            self.bytes = sum(size for _, size, _ in self._files())
        except OSError as error:
            raise ConfigError(f"server.cache.folder: {self._folder} cannot be used: {error.strerror}.") from None

    def get(self, key: str) -> Phrase | None:
        if (unwritten := self._unwritten.get(key)) is not None:
            return unwritten
        file = self._folder / f"{key}{_SUFFIX}"
        try:
            phrase = Phrase.from_bytes(file.read_bytes())
            os.utime(file)  # the time of its last use
        except OSError:
            return None
        except BrokenPhrase:
            log.warning("a damaged file of the phrase cache is deleted", extra={"fields": {"file": file.name}})
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        return phrase

    def put(self, key: str, phrase: Phrase) -> None:
        """Queues a phrase to be written; until then it is found in memory. If too many are queued, it is not kept."""
        if len(self._unwritten) < _MOST_UNWRITTEN:
            self._unwritten[key] = phrase
            self._writer.submit(self._write, key, phrase)

    def flush(self) -> None:
        self._writer.submit(lambda: None).result()

    def _write(self, key: str, phrase: Phrase) -> None:
        """Writes a phrase. If that fails, for example because the disk is full, the phrase is not kept."""
        temporary = self._folder / f".{secrets.token_hex(8)}{_TEMPORARY}"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(phrase.to_bytes())
            os.replace(temporary, self._folder / f"{key}{_SUFFIX}")
            self._make_room()
        except OSError as error:
            log.warning("a phrase could not be kept: %s", error.strerror)
        finally:
            self._unwritten.pop(key, None)
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _clean_up(self) -> None:
        """Deletes what a crash left behind, but not the files that another replica is writing now."""
        for file in self._folder.glob(f".*{_TEMPORARY}"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _ABANDONED_S:
                    file.unlink()

    def _make_room(self) -> None:
        with self._lock:
            files = sorted(self._files())
            total = sum(size for _, size, _ in files)
            for _, size, file in files:
                if total <= self._most:
                    break
                with contextlib.suppress(OSError):
                    file.unlink()
                total -= size
            self.bytes = total

    def _files(self) -> list[tuple[float, int, Path]]:
        """Returns the time of last use, the size and the path of each file."""
        found = []
        for file in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another replica may have deleted it
                about = file.stat()
                found.append((about.st_mtime, about.st_size, file))
        return found
