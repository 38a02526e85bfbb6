"""The process that decodes audio of users: one file at a time from standard input, its samples to standard output.

A message is one line of JSON, then as many bytes as the line says. The process ends when its input ends, when a file
exceeds its CPU time, or when a decoder crashes; its parent then starts another for the next file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import BinaryIO

from rhapsode.audio.decode import decode
from rhapsode.errors import BadAudio

if sys.platform != "win32":
    import resource

MEMORY_BYTES = 3 * 2**30
MOST_CHANNELS = 2


def main() -> None:
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    _limit_memory()
    while line := jobs.readline():
        job = json.loads(line)
        data = jobs.read(job["bytes"])
        _limit_cpu(job["max_cpu_s"])
        try:
            clip = decode(data, max_bytes=job["max_bytes"], max_duration_s=job["max_duration_s"], mono=job["mono"])
            if clip.channels > MOST_CHANNELS:
                raise BadAudio(f"The audio has {clip.channels} channels: mono and stereo are allowed.")
        except BadAudio as error:
            _write(results, {"error": error.message})
        except MemoryError:
            _write(results, {"error": "The audio needs too much memory to decode."})
        else:
            shape = {"channels": clip.channels, "rate": clip.sample_rate, "bytes": clip.samples.nbytes}
            _write(results, shape, clip.samples.tobytes())


def _write(file: BinaryIO, header: Mapping[str, object], data: bytes = b"") -> None:
    file.write(json.dumps(header).encode() + b"\n")
    file.write(data)
    file.flush()


def _limit_memory() -> None:
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _limit_cpu(max_cpu_s: float) -> None:
    """Makes the system end this process after so many more seconds of CPU time, rounded up to whole seconds."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + max_cpu_s) + 1, hard))


if __name__ == "__main__":
    main()
