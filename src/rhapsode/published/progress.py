"""What has been measured so far, one JSON line each, so that a run that is cut off goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rhapsode.errors import InvalidRequest, OutputError


class KeptResults:
    """Results by key. The first line of the file says what they are measurements of."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        self.results: dict[str, Any] = {}
        lines = self._read()
        if lines and lines[0] != {"about": about}:
            differs = [name for name, value in about.items() if lines[0].get("about", {}).get(name) != value]
            raise InvalidRequest(
                f"{path} belongs to another measurement: {', '.join(differs) or 'its first line'} differ. "
                "Delete the file, or give another folder with -o."
            )
        for line in lines[1:]:
            self.results[line["key"]] = line["result"]
        self._write_all(about)

    def put(self, key: str, result: Any) -> None:
        """Keeps a result; it is on the disk when this returns."""
        self.results[key] = result
        self._append({"key": key, "result": result})

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)

    def _read(self) -> list[dict[str, Any]]:
        """Returns the whole lines of the file: the last one may have been cut off."""
        if not self._path.is_file():
            return []
        found = []
        for line in self._path.read_text("utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def _write_all(self, about: dict[str, Any]) -> None:
        """Writes the file anew, without a line that was cut off."""
        lines = [{"about": about}, *({"key": key, "result": result} for key, result in self.results.items())]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        try:
            self._path.write_text(text, "utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror or error}.") from None

    def _append(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
