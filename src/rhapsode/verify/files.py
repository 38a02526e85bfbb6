"""Checks the files and the tokenizer of a checkpoint, and reports what was read of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from rhapsode.checkpoints.audit import Audit
from rhapsode.errors import RhapsodeError
from rhapsode.models.lazy import import_name
from rhapsode.models.registry import Model
from rhapsode.verify.finding import CheckResult, listed
from rhapsode.verify.pieces import read_pieces

SENTENCES = ("The quick brown fox jumps over the lazy dog.", "Twelve apples, 3 pears; isn't it?")


def check_files(model: Model) -> Iterator[CheckResult]:
    """Compares the files of a checkpoint with those that its family needs."""
    folder = model.checkpoint
    if folder is None:
        yield CheckResult("files", "note", f"{model.spec.name} runs without a checkpoint")
        return
    absent = [need for need in model.spec.needs if not any(_holds(folder, one) for one in need.split("|"))]
    if absent:
        yield CheckResult("files", "failed", f"missing: {', '.join(need.replace('|', ' or ') for need in absent)}")
    else:
        yield CheckResult("files", "ok", ", ".join(need.replace("|", " or ") for need in model.spec.needs))


def _holds(folder: Path, pattern: str) -> bool:
    return any(path.is_file() and path.stat().st_size for path in folder.glob(pattern))


def check_tokenizer(model: Model) -> Iterator[CheckResult]:
    """Encodes sentences, and decodes them with nothing but the file's vocabulary: the text must be the same again."""
    folder = model.checkpoint
    if folder is None or model.spec.tokenizer is None:
        return
    try:
        encode, pieces = import_name(model.spec.tokenizer)(folder), read_pieces(folder)
    except RhapsodeError as error:
        yield CheckResult("tokenizer", "failed", error.message)
        return
    for sentence in SENTENCES:
        ids = encode(sentence)
        back = b"".join(pieces.get(number, b"") for number in ids).decode("utf-8", "replace")
        if _plain(back) != _plain(sentence):
            yield CheckResult("tokenizer", "failed", f"'{sentence}' comes back as '{back}'")
            return
    yield CheckResult("tokenizer", "ok", f"{len(pieces)} pieces; {len(SENTENCES)} sentences come back as they were")


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def check_audit(audit: Audit) -> Iterator[CheckResult]:
    """Reports what was read of the configuration and of the tensors, and what was not."""
    for where, keys in audit.unknown_keys().items():
        yield CheckResult("config", "note", f"{where}: {len(keys)} keys that nothing here reads: {listed(keys)}")
    if not audit.unknown_keys() and audit.keys:
        yield CheckResult("config", "ok", f"every key of {', '.join(audit.keys)} is known")
    for folder, names in audit.unused_tensors().items():
        kinds = listed([f"{first}.*" for first in dict.fromkeys(name.partition(".")[0] for name in names)])
        yield CheckResult("tensors", "note", f"{len(names)} of {folder} are not needed: {kinds}")
    if audit.tensors:
        read = sum(len(names) for names in audit.tensors_read.values())
        ignored = sum(len(names) for names in audit.tensors_ignored.values())
        yield CheckResult("tensors", "ok", f"{read} read, {ignored} left out on purpose")
