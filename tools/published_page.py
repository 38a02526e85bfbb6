"""Writes docs/published.md from the rows in docs/published: `python -m tools.published_page`.

`--check` writes nothing, and fails if the page is not what the rows say. Rows that are incomplete or were edited are
refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from rhapsode.models.packaged import PACKAGED
from rhapsode.models.registry import families, find
from rhapsode.published.row import SCHEMA, read
from rhapsode.published.table import markdown, percent, table

ROOT = Path(__file__).resolve().parents[1]
ROWS, PAGE = ROOT / "docs" / "published", ROOT / "docs" / "published.md"
COLUMNS = (
    *("family", "checkpoint", "mode", "precision", "samples", "WER or CER % (others)", "similarity", "MOS"),
    *("first audio ms, 1 listener", "RTF, 1 listener", "most audio-s/s", "beside upstream"),
)
NONE = "not measured yet"
HEAD = """# Published checkpoints, measured

Does it work with the published weights? Every row is the output of one command on somebody's machine:

```sh
rhapsode bench published CHECKPOINT --beside upstream PYTHON
```

WER and CER are by the rules that others use (`others`): Whisper's own for English, by character for Chinese, Japanese
and Korean. How it is measured: [benchmarking](benchmarking.md#published-checkpoints). `python -m tools.published_page`
writes this page from the files in `docs/published`.

**To send a row:**

1. Run the command above with the checkpoint; with `--beside` if you have an environment with upstream's package.
2. Put the JSON file that it writes into `docs/published`, unchanged, and run `python -m tools.published_page`.
3. Open a pull request. If the command fails, open an issue with what `--report FILE` writes: no weights, no texts.
"""


def read_rows(folder: Path = ROWS) -> list[dict[str, Any]]:
    """Returns all rows; raises for one that is incomplete or was edited."""
    schema = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    rows = []
    for path in sorted(folder.glob("*.json")):
        row = read(path)
        schema.validate(row)
        rows.append(row)
    return rows


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    summary = table(COLUMNS, [cells for name in subjects() for cells in summary_cells(name, rows)])
    parts = [HEAD, "## All families\n", summary, ""]
    if rows:
        parts += ["## Details\n", markdown(rows)]
    return "\n".join(parts)


def subjects() -> list[str]:
    """Returns what should have a row: the packaged checkpoints, and every family that is listed."""
    return [*PACKAGED, *(name for name, spec in families()[0].items() if not spec.hidden)]


def summary_cells(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str | float | int | None]]:
    spec = families()[0].get(name) or find(name).spec
    packaged = name in PACKAGED
    mine = [row for row in rows if name in (row["checkpoint"]["name"], row["checkpoint"]["family"])]
    mine = [row for row in mine if packaged or row["checkpoint"]["name"] not in PACKAGED]
    if not mine:
        yield [name, name if packaged else ", ".join(spec.published) or "-", NONE, *([""] * (len(COLUMNS) - 3))]
    for row in mine:
        for one in row["quality"]:
            speed = [at for at in row["speed"] if at["precision"] == one["precision"]]
            alone = next((at for at in speed if at["listeners"] == 1), None)
            yield [
                row["checkpoint"]["family"],
                row["checkpoint"]["name"],
                one["mode"],
                one["precision"],
                one["samples"],
                percent(one["comparable"]["rate"]),
                one["similarity"],
                one["mos"],
                alone and alone["first_audio_p50_ms"],
                alone and alone["rtf"],
                max((at["audio_s_per_s"] for at in speed), default=None),
                beside(row),
            ]


def beside(row: Mapping[str, Any]) -> str:
    """Returns in how many texts our speech is upstream's."""
    found = row["beside"]
    if found is None:
        return "-"
    same = sum(not sample["findings"] for sample in found["samples"])
    return f"{same} of {found['texts']} texts equal, {found['upstream']}"


def main(arguments: Sequence[str]) -> int:
    written = page(read_rows())
    if "--check" in arguments:
        if PAGE.read_text("utf-8") != written:
            print("docs/published.md is not what docs/published says: run `python -m tools.published_page`.")
            return 1
        return 0
    PAGE.write_text(written, "utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
