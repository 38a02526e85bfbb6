"""Downloads checkpoints from the Hugging Face hub into its local cache."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rhapsode.checkpoints.download import download
from rhapsode.checkpoints.listing import SMALL_BYTES, RemoteListing, list_files, write_outline
from rhapsode.errors import CheckpointError, MissingDependency
from rhapsode.extras import how_to_add

# Weights and their configuration; no code, and no pickled copies of the same weights.
FILES = ("*.json", "*.txt", "*.safetensors")

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")


def is_id(name: str) -> bool:
    """Returns whether a name has the form `owner/name` or `owner/name@revision`, and is not a path."""
    return _ID.fullmatch(name) is not None


def is_offline() -> bool:
    """Returns whether `HF_HUB_OFFLINE` forbids downloads, read as the hub's own client reads it."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def fetch(name: str, files: tuple[str, ...] = FILES, unread: tuple[str, ...] = (), tell: bool = False) -> Path:
    """Downloads the files of a checkpoint that the local cache lacks, and returns the checkpoint's local folder.

    `unread` are patterns of files that nobody reads. With `tell`, standard error says how much it is before it starts.
    An interrupted download goes on where it stopped.
    """
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise MissingDependency(
            f"a checkpoint from the hub needs huggingface-hub: {how_to_add('huggingface-hub')}"
        ) from None
    owner_name, _, revision = name.partition("@")
    listing = list_files(owner_name, revision or None, files, unread) if tell else None
    try:
        if listing is not None and listing.missing:
            _tell(name, listing)
            download(listing)
        folder = snapshot_download(
            owner_name, revision=revision or None, allow_patterns=list(files), ignore_patterns=list(unread) or None
        )
        return Path(folder)
    except errors.RevisionNotFoundError:
        raise CheckpointError(f"{owner_name} has no revision '{revision}' on the Hugging Face hub.") from None
    except errors.GatedRepoError:
        raise CheckpointError(f"{name} asks for consent: accept its terms on the hub, then log in there.") from None
    except errors.RepositoryNotFoundError:
        raise CheckpointError(f"there is no folder and no model on the Hugging Face hub called '{name}'.") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the Hugging Face hub cannot be reached"
        raise CheckpointError(f"{name} is not a folder, is not in the local cache, and {why}.") from None
    except (errors.HfHubHTTPError, OSError) as error:
        raise CheckpointError(f"{name} could not be downloaded: {error}") from error


@contextmanager
def outlined(name: str, files: tuple[str, ...], unread: tuple[str, ...]) -> Iterator[Path]:
    """Yields a folder that says what a checkpoint can do, without its weights: what is large has no content there.

    Where the hub does not list its files, it is the checkpoint as the local cache has it.
    """
    owner_name, _, revision = name.partition("@")
    listing = list_files(owner_name, revision or None, files, unread)
    if listing is None:
        yield fetch(name, files, unread)
        return
    small = tuple(file.name for file in listing.files if file.is_here or file.size <= SMALL_BYTES)
    folder = fetch(f"{owner_name}@{listing.commit}", small)
    with TemporaryDirectory(prefix="rhapsode-outline-") as outline:
        write_outline(listing, folder, Path(outline))
        yield Path(outline)


def _tell(name: str, listing: RemoteListing) -> None:
    """Says how much there is to download."""
    size, count = sum(file.size for file in listing.missing), len(listing.missing)
    if size > SMALL_BYTES:
        files = f"{count} files" if count > 1 else "1 file"
        print(f"downloading {name}: {size / 1e9:.2f} GB in {files}; Ctrl-C keeps what is there", file=sys.stderr)
