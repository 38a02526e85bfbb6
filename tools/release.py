"""Checks what a release is about to publish: python tools/release.py v0.2.0 dist [--notes]

The tag must be the version of the package and have an entry in CHANGELOG.md; the wheel must hold what the package needs
beside its code. With `--notes` it prints the entry.
"""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = (
    "rhapsode/py.typed",
    "rhapsode/serve/web/index.html",
    "rhapsode/nano/model.safetensors",
    "rhapsode/nano/config.json",
    "rhapsode/alignment/english/model.safetensors",
    "rhapsode/testing/plugin.py",
    "rhapsode/testing/test_frames.py",
    "rhapsode/cli/family_template/pyproject.toml.txt",
    "rhapsode/cli/family_template/src/my_tts/talker.py.txt",
)
"""Files that are easily lost: they are named in `package-data`, or found by a plugin."""


def entry(changelog: str, version: str) -> str:
    """Returns the changelog's text about a version; raises `SystemExit` if there is none."""
    found = re.search(rf"^## \[?{re.escape(version)}\]?[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise SystemExit(f"CHANGELOG.md has no entry '## {version}'.")
    return found[1].strip()


def check_version(tag: str) -> str:
    """Returns the version that a tag names, if it is that of the package."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and pyproject.toml says {version}: they must be the same.")
    return str(version)


def check_wheel(folder: Path, version: str) -> None:
    wheels = list(folder.glob("*.whl"))
    if [path.name.split("-")[:2] for path in wheels] != [["rhapsode", version]]:
        raise SystemExit(f"{folder} must hold one wheel of rhapsode {version}, not {[path.name for path in wheels]}.")
    held = set(zipfile.ZipFile(wheels[0]).namelist())
    if lacking := [name for name in NEEDED if name not in held]:
        raise SystemExit(f"{wheels[0].name} lacks {', '.join(lacking)}.")
    if strange := [name for name in held if name.split("/")[0] not in ("rhapsode", f"rhapsode-{version}.dist-info")]:
        raise SystemExit(f"{wheels[0].name} holds {', '.join(strange[:5])}, which does not belong to the package.")


def main(tag: str, folder: str, *options: str) -> None:
    version = check_version(tag)
    notes = entry((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if "--notes" in options:
        print(notes)
        return
    check_wheel(Path(folder), version)
    print(f"{tag}: the wheel is whole, and the changelog has {len(notes.splitlines())} lines about it.")


if __name__ == "__main__":
    main(*sys.argv[1:])
