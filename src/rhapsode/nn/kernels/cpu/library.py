"""The C kernels: compiled for this machine by its own compiler when they are first needed, and kept."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from rhapsode.nn.kernels.cpu.cache import KernelCache

SOURCES = ("bytes.c", "convnext.c", "layers.c", "predictor.c", "sampling.c", "vocoder.c")
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-shared", "-fPIC")
_FOLDER = Path(__file__).parent
_INTEGERS = ("convnext_space", "draw", "layers_space", "panel_width", "predictor_space", "reads_half", "run_layers")
"""Functions that return a number: of 64 bits, where ctypes expects 32."""

MOST_COMPILE_S = 300.0

log = logging.getLogger("rhapsode")


@cache
def library() -> ctypes.CDLL | None:
    """Returns the compiled kernels, or `None` where there is no C compiler: PyTorch's operators do the work then.

    The environment variable `CC` chooses the compiler; `CC=false` is none.
    """
    if platform.system() != "Linux":
        return None
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    try:
        kernels = _loaded(_built(compiler))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # no such compiler, no home, no room
        log.info("PyTorch's operators replace the C kernels, which cannot be compiled: %s", error)
        return None
    for name in _INTEGERS:
        getattr(kernels, name).restype = ctypes.c_int64
    return kernels


def _loaded(content: bytes) -> ctypes.CDLL:
    """Loads a library from memory: what was checked is what is loaded, and a file that is cut off later harms nobody.

    Where the system runs nothing from memory, it is loaded from a file that only this user can reach.
    """
    try:
        descriptor = os.memfd_create("rhapsode-kernels")  # never closed: its path names this library and no other
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    except OSError:
        with tempfile.TemporaryDirectory(prefix="rhapsode-kernels-") as folder:
            path = Path(folder) / "kernels.so"
            path.write_bytes(content)
            return ctypes.CDLL(str(path))


def _built(compiler: str) -> bytes:
    """Returns the compiled library, from the cache if it is there."""
    digest = hashlib.blake2b(digest_size=12)
    for part in (compiler, *_FLAGS, _processor()):
        digest.update(part.encode())
    for source in sorted(_FOLDER.glob("*.[ch]")):
        digest.update(source.read_bytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rhapsode" / "kernels"
    name = f"cpu-{digest.hexdigest()}.so"
    with KernelCache(folder) as kept:
        library = kept.find(name)
        if library is None:
            library = _compiled(compiler)
            kept.keep(name, library)
    return library


def _compiled(compiler: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rhapsode-kernels-") as folder:
        made = Path(folder) / "kernels.so"
        files = [str(_FOLDER / source) for source in SOURCES]
        command = [*shlex.split(compiler), *_FLAGS, *files, "-o", str(made), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=MOST_COMPILE_S)
        return made.read_bytes()


def _processor() -> str:
    """Names the instructions of this machine's processor: a cache may be shared by several machines."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    told = [line for line in lines if line.lower().startswith(("flags", "features", "model name", "cpu part"))]
    return platform.machine() + "".join(sorted(set(told)))
