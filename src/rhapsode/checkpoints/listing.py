"""The files of a repository on the Hugging Face hub: which there are, how large, and which are here already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from rhapsode.errors import CheckpointError

SMALL_BYTES = 16 * 2**20
"""Files up to this size are configuration, tokenizers and voices: fetched to describe a checkpoint."""
LARGEST_HEADER_BYTES = 100_000_000
TIMEOUT_S = 30


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository."""

    name: str
    size: int
    is_here: bool


@dataclass(frozen=True)
class RemoteListing:
    """The files of one commit that match what was asked for."""

    owner_name: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def missing(self) -> tuple[RemoteFile, ...]:
        return tuple(file for file in self.files if not file.is_here)

    def header(self, file: RemoteFile) -> bytes:
        """Returns the header of a safetensors file, without its tensors."""
        size = int.from_bytes(self._read(file, 0, 8), "little")
        if not 0 < size <= LARGEST_HEADER_BYTES:
            raise CheckpointError(f"{file.name} of {self.owner_name} is not a readable safetensors file.")
        return self._read(file, 0, 8 + size)

    def _read(self, file: RemoteFile, start: int, stop: int) -> bytes:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session  # type: ignore[attr-defined]

        url = hf_hub_url(self.owner_name, file.name, revision=self.commit)
        headers = {**build_hf_headers(), "Range": f"bytes={start}-{stop - 1}"}
        answer = get_session().get(url, headers=headers, timeout=TIMEOUT_S)
        if answer.status_code not in (200, 206):
            raise CheckpointError(f"{file.name} of {self.owner_name} cannot be read: {answer.status_code}.")
        return bytes(answer.content[: stop - start])


def list_files(
    owner_name: str, revision: str | None, wanted: Sequence[str], unread: Sequence[str]
) -> RemoteListing | None:
    """Returns the files that match `wanted` and not `unread`; `None` if the hub does not tell."""
    from huggingface_hub import HfApi, errors, try_to_load_from_cache
    from huggingface_hub.hf_api import RepoFile

    try:
        api = HfApi()
        commit = api.repo_info(owner_name, revision=revision, timeout=TIMEOUT_S).sha or ""
        entries = list(api.list_repo_tree(owner_name, recursive=True, revision=commit))
    except (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, OSError):
        return None
    except Exception as error:  # whichever HTTP library the client uses
        if "http" in type(error).__module__:
            return None
        raise
    chosen = [
        entry
        for entry in entries
        if isinstance(entry, RepoFile)
        and any(fnmatch(entry.path, pattern) for pattern in wanted)
        and not any(fnmatch(entry.path, pattern) for pattern in unread)
    ]
    files = [
        RemoteFile(e.path, e.size, isinstance(try_to_load_from_cache(owner_name, e.path, revision=commit), str))
        for e in chosen
    ]
    return RemoteListing(owner_name, commit, tuple(files))


def write_outline(listing: RemoteListing, small: Path, into: Path) -> None:
    """Writes a folder that describes a checkpoint: its small files, headers of weights, and empty files for others."""
    for file in listing.files:
        path = into / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (small / file.name).is_file():
            path.symlink_to((small / file.name).resolve())
        else:
            path.write_bytes(listing.header(file) if file.name.endswith(".safetensors") else b"")
