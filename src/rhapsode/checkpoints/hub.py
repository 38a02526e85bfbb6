"""Downloads checkpoints from the Hugging Face hub into its local cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rhapsode.errors import CheckpointError, MissingDependency

# Weights and their configuration; no code, and no pickled copies of the same weights.
FILES = ("*.json", "*.txt", "*.safetensors")

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")


def is_id(name: str) -> bool:
    """Returns whether a name has the form `owner/name` or `owner/name@revision`, and is not a path."""
    return _ID.fullmatch(name) is not None


def is_offline() -> bool:
    """Returns whether `HF_HUB_OFFLINE` forbids downloads, read as the hub's own client reads it."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def fetch(name: str, files: tuple[str, ...] = FILES) -> Path:
    """Downloads the files of a checkpoint that the local cache lacks, and returns the checkpoint's local folder."""
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise MissingDependency(
            "a checkpoint from the hub needs huggingface-hub: pip install huggingface-hub"
        ) from None
    owner_name, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(owner_name, revision=revision or None, allow_patterns=list(files)))
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
