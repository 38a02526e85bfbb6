"""Keeps compiled kernels in a folder, and uses no file that another user could have written, or that is damaged.

Whoever can write a library that a process loads runs code in that process.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

log = logging.getLogger("rhapsode")

_DIGEST_BYTES = hashlib.sha256().digest_size


class KernelCache:
    """A folder of files that end with a digest of their content. It is opened once, and files by their names in it, so
    that what was checked is what is read. Without a usable folder nothing is found or kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: int | None = None
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = _open(str(path), os.O_RDONLY | os.O_DIRECTORY)
            _check_private(self._folder)
        except OSError as error:
            self.close()
            log.warning("compiled kernels are not kept, so every start compiles them: %s: %s", path, _why(error))

    def close(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, name: str) -> bytes | None:
        """Returns the content of a file; None if there is none that can be trusted."""
        if self._folder is None:
            return None
        try:
            return _content(name, self._read(name))
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("kernels are compiled again, since %s is not used: %s", self._path / name, _why(error))
            return None

    def keep(self, name: str, content: bytes) -> None:
        """Writes a file in full or not at all; the last of several processes that do so at once wins."""
        if self._folder is None:
            return
        temporary = f".{name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(_open(temporary, flags, self._folder), "wb") as file:
                file.write(content + _digest(name, content))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except OSError as error:
            log.warning("compiled kernels are not kept, so every start compiles them: %s: %s", self._path, _why(error))
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)

    def _read(self, name: str) -> bytes:
        with os.fdopen(_open(name, os.O_RDONLY, self._folder), "rb") as file:
            _check_private(file.fileno())
            return file.read()


def _open(name: str, flags: int, folder: int | None = None) -> int:
    """Opens a file, but no link, which may lead anywhere; and does not wait for the other end of a pipe."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=folder)


def _check_private(descriptor: int) -> None:
    """Raises an error unless a file or folder belongs to this user, or to root, and no other user can write to it."""
    about = os.fstat(descriptor)
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        raise PermissionError("it is no file")
    if about.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f"it belongs to user {about.st_uid}, not to user {os.geteuid()}")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"other users can write to it (its mode is {stat.S_IMODE(about.st_mode):o})")


def _content(name: str, raw: bytes) -> bytes:
    content = raw[:-_DIGEST_BYTES]
    if raw[-_DIGEST_BYTES:] != _digest(name, content):
        raise OSError("it is damaged")
    return content


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _why(error: OSError) -> str:
    links = {errno.ELOOP: "it is a link", errno.ENOTDIR: "it is a link, or no folder"}
    return links.get(error.errno or 0) or (error.strerror.lower() if error.strerror else str(error))
