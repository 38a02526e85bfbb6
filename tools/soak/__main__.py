"""Soak test: real servers under mixed, hostile and broken clients for a long time. Exits with 1 if anything is wrong.

    python -m tools.soak [--minutes 60] [--models dummy,rhapsode-nano] [--output soak.json]

At the end memory, descriptors, threads, processes, files, slots and pages must be where they were after the first
rounds; every client must have heard its own audio; no 5xx, error in the log or hang may have happened that was not
asked for. Linux only: it reads `/proc`, and fills the disk by a limit on the size of files.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tools.soak import report, run


async def soak_all(models: list[str], seconds: float, seed: int, faults: list[str]) -> list[run.Result]:
    with tempfile.TemporaryDirectory(prefix="rhapsode-soak-") as folder:
        subjects = [run.SUBJECTS[model] for model in models]
        soaks = (run.soak(subject, Path(folder) / subject.model, seconds, seed, faults) for subject in subjects)
        return await asyncio.gather(*soaks)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=60.0)
    arguments.add_argument("--models", default=",".join(run.SUBJECTS), help="served at the same time")
    arguments.add_argument("--seed", type=int, default=0, help="of what clients do")
    arguments.add_argument("--output", type=Path, default=Path("soak.json"))
    arguments.add_argument("--faults", default="", help="plants faults, to test the soak itself: see faults.py")
    given = arguments.parse_args()
    started_s = time.monotonic()
    faults = [name for name in given.faults.split(",") if name]
    results = asyncio.run(soak_all(given.models.split(","), given.minutes * 60, given.seed, faults))
    found = report.as_json(results, time.monotonic() - started_s, given.seed)
    report.write(given.output, found)
    print(report.as_table(results))
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
