"""A hub on loopback that answers the Hugging Face client: the commit, the tree, files and parts of them."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40
PIECE = 2**16


@dataclass
class Hub:
    """A repository `owner/name`, and what was sent of it."""

    folder: Path
    url: str = ""
    slow: str = ""
    """The file of which only half is sent, until it is no longer this one."""
    sent: dict[str, int] = field(default_factory=dict)
    starts: list[tuple[str, int]] = field(default_factory=list)
    """Where each answer with a file's content began."""

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


@contextmanager
def hub_of(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder)

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path.startswith("/api/models/owner/name/tree/"):
                self._json([_entry(folder, file) for file in hub.files()])
            elif path.startswith("/api/models/owner/name"):
                self._json({"id": "owner/name", "modelId": "owner/name", "sha": COMMIT, "siblings": []})
            elif path.startswith("/owner/name/resolve/"):
                self._file(path.split("/", 5)[5])
            else:
                self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _json(self, body: object) -> None:
            self._answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

        def _file(self, name: str) -> None:
            file = folder / name
            if not file.is_file():
                self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
                return
            data = file.read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
            first, last = 0, len(data) - 1
            if asked := self.headers.get("Range"):
                begin, _, end = asked.removeprefix("bytes=").partition("-")
                first, last = int(begin), min(last, int(end or last))
                headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            if self.command == "GET":
                hub.starts.append((name, first))
            self._answer(206 if asked else 200, data[first : last + 1], headers, name)

        def _answer(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            for start in range(0, len(body), PIECE):
                try:
                    self.wfile.write(body[start : start + PIECE])
                except OSError:
                    return
                hub.sent[name] = hub.sent.get(name, 0) + len(body[start : start + PIECE])
                while name and name == hub.slow and start >= len(body) // 2:
                    time.sleep(0.01)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(folder: Path, file: Path) -> dict[str, object]:
    data = file.read_bytes()
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    entry: dict[str, object] = {"type": "file", "path": str(file.relative_to(folder)), "size": len(data), "oid": oid}
    if len(data) > 2**16:
        sha = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 134}
    return entry
