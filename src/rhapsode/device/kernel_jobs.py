"""A queue of kernels to compile, as files in a folder: one process writes them, others compile them without a GPU."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

POLL_S = 0.005


@dataclass(frozen=True)
class KernelJob:
    """A kernel and everything that Triton specialises it for."""

    module: str
    name: str
    signature: Mapping[str, Any]
    constants: Mapping[tuple[int, ...], Any]
    attributes: Mapping[tuple[int, ...], Any]
    options: Mapping[str, Any]
    target: tuple[str, Any, int]
    """The kind of GPU: Triton's backend, architecture and threads of a warp."""

    @classmethod
    def of(cls, function: Any, given: Mapping[str, Any]) -> Self:
        """Makes a job from what Triton passes to its hook before it compiles a kernel."""
        options = json.loads(given["specialization_data"])["options"]
        target = function.jit_function.device_caches[given["device"]][2]
        return cls(
            module=function.module,
            name=function.name,
            signature=given["signature"],
            constants=given["constants"],
            attributes=given["configs"][0],
            options={name: tuple(value) if isinstance(value, list) else value for name, value in options.items()},
            target=(target.backend, target.arch, target.warp_size),
        )

    def compile(self) -> None:
        """Compiles the kernel, and the C function that launches it, into Triton's cache."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.compiler import compile as compile_source

        function = attrgetter(self.name)(import_module(self.module))
        source = ASTSource(function, dict(self.signature), dict(self.constants), dict(self.attributes))
        compiled = compile_source(source, target=GPUTarget(*self.target), options=dict(self.options))
        if self.target[0] == "cuda":
            with suppress(Exception):  # the launch makes it again, and reports the error
                from triton.backends.nvidia.driver import CudaLauncher

                CudaLauncher(source, compiled.metadata)


class JobFolder:
    """A queue of jobs in a folder, for processes that may end at any moment: a process takes a job by renaming it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting, self._taken, self._closed = folder / "waiting", folder / "taken", folder / "closed"
        self._serial = itertools.count()
        for made in (folder, self._waiting, self._taken):
            made.mkdir(exist_ok=True)

    def put(self, job: KernelJob) -> bool:
        """Adds a job; returns whether it could be written."""
        try:
            content = pickle.dumps(job)
        except Exception:  # an argument that cannot be pickled
            return False
        name = f"{next(self._serial):06d}"
        unfinished = self._folder / name
        unfinished.write_bytes(content)
        unfinished.rename(self._waiting / name)
        return True

    def close(self) -> None:
        """Closes the queue: no more jobs will be added."""
        self._closed.touch()

    def take(self) -> Iterator[KernelJob]:
        """Yields the jobs that no other process has taken, oldest first, and waits for more until the queue is closed.

        Also ends when the parent process has ended or the folder is gone.
        """
        parent = os.getppid()
        while os.getppid() == parent and self._waiting.exists():
            is_closed = self._closed.exists()  # read before `_next`: a job may be added in between
            job = self._next()
            if job is not None:
                yield job
            elif is_closed:
                return
            else:
                time.sleep(POLL_S)

    def _next(self) -> KernelJob | None:
        with suppress(FileNotFoundError):  # the folder was removed
            for name in sorted(os.listdir(self._waiting)):
                with suppress(FileNotFoundError):  # another process was faster
                    (self._waiting / name).rename(self._taken / name)
                    job: KernelJob = pickle.loads((self._taken / name).read_bytes())
                    return job
        return None
