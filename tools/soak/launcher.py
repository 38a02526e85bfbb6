"""Runs `rhapsode serve` for a soak: the wall clock jumps on SIGUSR1, and `SOAK_FAULTS` plants faults to be found.

python -P tools/soak/launcher.py serve --config FILE
"""

import itertools
import os
import runpy
import signal
import sys
import time
from pathlib import Path

JUMPS_S = (3_600, -7_200, 30 * 86_400, -365 * 86_400, 0)


def patch_clock():
    """Replaces the wall clock before anything else imports it. Monotonic clocks stay as they are, as in real jumps."""
    real, real_ns = time.time, time.time_ns
    jumps = itertools.cycle(JUMPS_S)
    offset_s = 0

    def jump(signum, frame):
        nonlocal offset_s
        offset_s = next(jumps)
        os.write(2, f"the clock jumped by {offset_s} s\n".encode())

    time.time = lambda: real() + offset_s
    time.time_ns = lambda: real_ns() + offset_s * 10**9
    signal.signal(signal.SIGUSR1, jump)


def main():
    patch_clock()
    if faults := os.environ.get("SOAK_FAULTS"):
        found = runpy.run_path(str(Path(__file__).with_name("faults.py")))
        found["plant"](faults.split(","))
    sys.argv[0] = "rhapsode"
    runpy.run_module("rhapsode", run_name="__main__")


if __name__ == "__main__":
    main()
