"""A server's heap: what its threads have freed is given back to the system."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no heaps per thread")
THREADS, MIB_EACH = 8, 40
LARGE = 2**25 - 2**16
"""Bytes of the largest block that glibc maps apart at first. Once one is freed, blocks of its size come from heaps."""
BUSY_THREADS = f"""
import os, sys, threading
from contextlib import suppress
from pathlib import Path
from rhapsode.cli.serve import run_server
from rhapsode.errors import RhapsodeError
from rhapsode.serve.memory import trim

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20

def work():
    together.wait()
    held = [bytearray(2**20) for _ in range({MIB_EACH})]
    together.wait()
    del held
    together.wait()

if sys.argv[1] == "a server":
    with suppress(RhapsodeError):
        run_server(Path("there-is-no-such-file.yaml"), {{"device": "cpu"}})
together = threading.Barrier({THREADS})
bytearray({LARGE})
before = resident_mib()
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
trim()
print(resident_mib() - before)
"""


def left_mib(process: str) -> int:
    """Returns what a process has grown by once its threads have freed all they had, and the heap was trimmed."""
    command = [sys.executable, "-c", BUSY_THREADS, process]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def test_what_threads_of_a_server_have_freed_is_given_back() -> None:
    assert left_mib("a server") < MIB_EACH


def test_a_process_with_a_heap_for_each_thread_keeps_it() -> None:
    assert left_mib("another process") > THREADS * MIB_EACH / 2
