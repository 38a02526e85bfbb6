"""Runs the tests that need a GPU, part by part, and keeps the last record of each part in docs/gpu-tests.md.

    python -m tools.gpu_tests            # all parts, one after the other
    python -m tools.gpu_tests --part 3
    python -m tools.gpu_tests --list

A part takes less than nine minutes on one H200. `--commit` names the commit where there is no git.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gpu-tests.md"
KERNELS, DEVICE = ("nn/kernels/gpu/*.py", "nn/fused/*.py", "models/**/fused.py"), "device/*.py"
NAMES_A_GPU = re.compile("cuda|triton|replay", re.IGNORECASE)
RULES = tuple(f"tests/contract/test_{name}.py" for name in ("contract", "frames", "bursts", "text", "warm"))
TIMEOUT_S = 300


@dataclass(frozen=True)
class Part:
    """Tests that run in one process. `families`: those the contract suite runs over."""

    name: str
    paths: tuple[str, ...]
    families: tuple[str, ...] = ()


PARTS = (
    Part(
        "kernels, transfers and sections",
        (
            "tests/unit/nn/kernels",
            "tests/unit/engine/test_pcm16.py",
            "tests/unit/device/test_keeps_the_lock.py",
            "tests/unit/device/test_never_waits.py",
            "tests/unit/bench/test_engine_sections.py",
        ),
    ),
    Part("storms", ("tests/contract/test_storm.py",)),
    Part("contract: dummy", RULES, ("dummy",)),
    Part("contract: Qwen3-TTS", RULES, ("qwen3-tts",)),
    Part("contract: VoxCPM2, MOSS-TTS-Nano", RULES, ("voxcpm2", "moss-tts-nano")),
    Part("contract: Voxtral, Fish S2-Pro", RULES, ("voxtral-tts", "fish-s2-pro")),
    Part("contract: Higgs v2 and v3", RULES, ("higgs-v2", "higgs-v3")),
    Part("contract: CosyVoice3", RULES, ("cosyvoice3",)),
)
CPU_FAMILIES = {
    "hibari": "a generator that runs on CPUs",
    "kokoro": "not run on a GPU yet",
    "chatterbox": "not run on a GPU yet",
}
"""Families without a part, and why."""


@dataclass(frozen=True)
class Record:
    """What a run of a part gave: a row of the page's table."""

    part: str
    passed: int
    failed: int
    skipped: int
    seconds: int
    commit: str
    machine: str
    digest: str

    @property
    def row(self) -> str:
        return f"| {' | '.join(str(value) for value in vars(self).values())} |"


def only_on_a_gpu() -> list[Path]:
    """Returns the files that CPU tests do not run as a GPU does: kernels, and what captures, launches and copies."""
    package = ROOT / "src/rhapsode"
    device = {path for path in package.glob(DEVICE) if NAMES_A_GPU.search(path.read_text())}
    return sorted(device | {path for glob in KERNELS for path in package.glob(glob)})


def digest() -> str:
    """Returns a digest of the files that only a GPU runs as they are meant."""
    sha = hashlib.sha256()
    for path in only_on_a_gpu():
        sha.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:12]


def records() -> dict[str, Record]:
    """Returns the last record of each part, from the page."""
    found = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == len(Record.__dataclass_fields__) and cells[1].isdigit():
            passed, failed, skipped, seconds = map(int, cells[1:5])
            found[cells[0]] = Record(cells[0], passed, failed, skipped, seconds, *cells[5:])
    return found


def stale() -> list[str]:
    """Returns the names of the parts whose record is of other files than those here."""
    now, known = digest(), records()
    return [part.name for part in PARTS if part.name in known and known[part.name].digest != now]


def keep(record: Record) -> None:
    """Puts a record into the page's table, in the order of the parts."""
    known = {**records(), record.part: record}
    rows = "\n".join(known[part.name].row for part in PARTS if part.name in known)
    head, columns = (
        PAGE.read_text().split("| part |")[0],
        "| part | passed | failed | skipped | seconds | commit | machine | digest |",
    )
    PAGE.write_text(f"{head}{columns}\n|{'---|' * columns.count(' | ')}---|\n{rows}\n")


def run(part: Part, commit: str) -> Record:
    """Runs a part in a process of its own; prints what failed and why tests were skipped."""
    begun_s = time.monotonic()
    environment = {**os.environ, "TEST_DEVICE": "cuda"}
    families = [f"--family={family}" for family in part.families]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ("-p", "no:cacheprovider", "-o", f"timeout={TIMEOUT_S}", "-m", "slow or not slow", "-rs")
        command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *families, *part.paths]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        suite = next(iter(ET.parse(report).getroot())) if report.exists() else None
    counts = {
        name: int(suite.get(name, 0)) if suite is not None else 0 for name in ("tests", "failures", "errors", "skipped")
    }
    failed = counts["failures"] + counts["errors"] if suite is not None else 1
    passed = counts["tests"] - failed - counts["skipped"] if suite is not None else 0
    return Record(
        part.name, passed, failed, counts["skipped"], round(time.monotonic() - begun_s), commit, machine(), digest()
    )


def machine() -> str:
    """Names the GPU and the versions that compile for it."""
    import torch
    import triton

    versions = f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}"
    return f"{torch.cuda.get_device_name()}, {versions}"


def current_commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def chosen(number: int | None) -> Iterator[tuple[int, Part]]:
    """Yields the parts to run with their numbers, which begin at 1."""
    yield from (pair for pair in enumerate(PARTS, start=1) if number in (None, pair[0]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, choices=range(1, len(PARTS) + 1))
    parser.add_argument("--list", action="store_true", help="print the parts and their last records")
    parser.add_argument("--commit", default=None)
    asked = parser.parse_args()
    if asked.list:
        old, known = set(stale()), records()
        for number, part in enumerate(PARTS, start=1):
            state = "no record" if part.name not in known else "stale" if part.name in old else "up to date"
            print(f"{number}  {part.name}: {state}")
        return 0
    commit, failed = asked.commit or current_commit(), 0
    for number, part in chosen(asked.part):
        record = run(part, re.sub(r"[^0-9a-f]", "", commit) or "unknown")
        keep(record)
        failed += record.failed
        print(
            f"part {number} ({part.name}): {record.passed} passed, {record.failed} failed, {record.skipped} skipped, "
            f"{record.seconds} s, commit {record.commit}, {record.machine}",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
