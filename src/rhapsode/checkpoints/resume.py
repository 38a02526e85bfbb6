"""Downloads a large file of the hub into its cache, going on where an interrupted download stopped.

The hub's client begins such a file anew. It takes a file that lies complete in the cache as its own.
"""

from __future__ import annotations

import hashlib
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

TIMEOUT_S = 60
PIECE = 2**20
_SHA256 = re.compile("[0-9a-f]{64}")


def fetch_blob(owner_name: str, file: str, commit: str, arrived: Callable[[int], None]) -> bool:
    """Downloads one file; returns whether it is complete. If not, the hub's client may fetch it in its own way.

    `arrived` is told how many more bytes are there.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(owner_name, file, revision=commit)
    about = get_hf_file_metadata(url)
    if about.etag is None or about.size is None or _SHA256.fullmatch(about.etag) is None:
        return False
    where = urljoin(url, about.location)
    # A signed address of another host needs no token, and must not see it.
    headers = build_hf_headers() if urlsplit(where).netloc == urlsplit(url).netloc else {}
    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=owner_name, repo_type="model") / "blobs"
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{about.etag}.part"
    with part.open("ab") as opened:
        if not _is_ours(opened):
            return False
        _append(opened, where, headers, about.size, arrived)
    if _sha256(part) != about.etag:
        part.unlink()
        return False
    part.replace(folder / about.etag)
    return True


def _is_ours(part: BinaryIO) -> bool:
    """Locks the file; returns whether no other process downloads it."""
    try:
        import fcntl

        fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _append(part: BinaryIO, url: str, headers: dict[str, str], size: int, arrived: Callable[[int], None]) -> None:
    """Fetches what the file lacks."""
    start = part.seek(0, 2)
    arrived(start)
    if start >= size:
        return
    request = urllib.request.Request(url, headers={**headers, "Range": f"bytes={start}-"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        if start and answer.status != 206:  # the whole file again
            part.truncate(0)
        while data := answer.read(PIECE):
            part.write(data)
            part.flush()
            arrived(len(data))


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
