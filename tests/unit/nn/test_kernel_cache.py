"""Compiled kernels are kept, and no file is used that another user could have written, or that is damaged."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forked import start
from rhapsode.nn.kernels.cpu import library as built
from rhapsode.nn.kernels.cpu.cache import KernelCache
from unit.command import environment

pytestmark = pytest.mark.skipif(built.library() is None, reason="there is no C compiler")

COMPILER = """#!/bin/sh
echo compiled >> {count}
while [ "$1" != -o ]; do shift; done
cp {made} "$2"
"""
"""Compiles nothing, but has the result."""
LOAD = "from rhapsode.nn.kernels.cpu.library import library; print(f'kernels of {library().panel_width()} columns')"


class Kernels:
    """A kernel cache of its own, and a compiler that counts how often it is called."""

    def __init__(self, folder: Path, made: bytes) -> None:
        self.home, self.count, compiler, library = (folder / name for name in ("home", "count", "cc", "made.so"))
        self.folder = self.home / "rhapsode" / "kernels"
        self.made = made
        library.write_bytes(made)
        compiler.write_text(COMPILER.format(count=self.count, made=library))
        compiler.chmod(0o755)
        self.compiler = str(compiler)

    def build(self) -> bytes:
        return built._built(self.compiler)

    @property
    def file(self) -> Path:
        (file,) = self.folder.glob("*.so")
        return file

    @property
    def compiled(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0


@pytest.fixture(scope="module")
def real() -> bytes:
    return built._built(os.environ.get("CC") or "cc")


@pytest.fixture
def kernels(tmp_path: Path, real: bytes, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    found = Kernels(tmp_path, real)
    monkeypatch.setenv("XDG_CACHE_HOME", str(found.home))
    return found


def test_kernels_are_compiled_once_and_kept_for_this_user_alone(kernels: Kernels) -> None:
    assert [kernels.build() for _ in range(3)] == [kernels.made] * 3
    assert kernels.compiled == 1
    assert stat.S_IMODE(kernels.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(kernels.folder.stat().st_mode) == 0o700
    assert [*kernels.folder.iterdir()] == [kernels.file]


def _cut_off(file: Path) -> None:
    os.truncate(file, 5000)


def _flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _give_away(file: Path) -> None:
    os.chown(file, 12345, -1)


def _share(mode: int) -> Callable[[Path], None]:
    return lambda file: file.chmod(mode)


def _link(file: Path) -> None:
    elsewhere = file.parents[2] / "elsewhere.so"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _rename_another(file: Path) -> None:
    """As if a file of other sources were put in its place."""
    with KernelCache(file.parent) as cache:
        cache.keep("cpu-other.so", b"other kernels")
    (file.parent / "cpu-other.so").replace(file)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
BAD = [
    pytest.param(_cut_off, "it is damaged", id="cut off"),
    pytest.param(lambda file: os.truncate(file, 0), "it is damaged", id="empty"),
    pytest.param(_flip_a_byte, "it is damaged", id="a flipped bit"),
    pytest.param(_rename_another, "it is damaged", id="another file"),
    pytest.param(_give_away, "it belongs to user 12345", id="foreign", marks=as_root),
    pytest.param(_share(0o602), "other users can write to it", id="writable by all"),
    pytest.param(_share(0o660), "other users can write to it", id="writable by the group"),
    pytest.param(_link, "it is a link", id="a link"),
    pytest.param(_pipe, "it is no file", id="a pipe"),
]


@pytest.mark.parametrize(("spoil", "why"), BAD)
def test_a_file_that_cannot_be_trusted_is_replaced(
    kernels: Kernels, spoil: Callable[[Path], None], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    kernels.build()
    spoil(kernels.file)
    with caplog.at_level(logging.WARNING):
        assert kernels.build() == kernels.made
    assert (why in caplog.text, kernels.compiled) == (True, 2)
    assert kernels.build() == kernels.made
    assert kernels.compiled == 2


def _link_folder(folder: Path) -> None:
    elsewhere = folder.parents[1] / "elsewhere"
    shutil.move(folder, elsewhere)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(_give_away, "it belongs to user 12345", id="foreign", marks=as_root),
        pytest.param(_share(0o777), "other users can write to it", id="writable by all"),
        pytest.param(_share(0o770), "other users can write to it", id="writable by the group"),
        pytest.param(_link_folder, "it is a link", id="a link"),
    ],
)
def test_nothing_is_read_from_or_kept_in_a_folder_that_others_can_write_to(
    kernels: Kernels, spoil: Callable[[Path], None], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    kernels.build()
    spoil(kernels.folder)
    before = kernels.file.stat()
    with caplog.at_level(logging.WARNING):
        assert kernels.build() == kernels.made
    assert (why in caplog.text, kernels.compiled) == (True, 2)
    assert kernels.file.stat() == before


def test_kernels_work_where_nothing_can_be_kept(
    kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "home"))
    with caplog.at_level(logging.WARNING):
        assert kernels.build() == kernels.made
    assert "are not kept" in caplog.text


@as_root
def test_a_file_of_root_in_a_folder_of_root_serves_all_users(caplog: pytest.LogCaptureFixture) -> None:
    """As in an image. That user cannot write to the folder, so nothing else is kept."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        with KernelCache(path) as cache:
            cache.keep("one.so", b"kernels")
        (path / "one.so").chmod(0o644)
        os.seteuid(12345)
        try:
            with KernelCache(path) as cache:
                assert cache.find("one.so") == b"kernels"
                cache.keep("two.so", b"kernels")
        finally:
            os.seteuid(0)
        assert [file.name for file in path.iterdir()] == ["one.so"]
    assert "permission denied" in caplog.text


def test_processes_that_start_at_once_all_get_kernels_and_leave_one_file(kernels: Kernels, tmp_path: Path) -> None:
    """Also where a file was cut off, which used to end every process with SIGBUS."""
    kernels.build()
    _cut_off(kernels.file)
    (tmp_path / "load.py").write_text(LOAD)
    env = environment(XDG_CACHE_HOME=str(kernels.home), CC=kernels.compiler, PYTHONPATH=os.pathsep.join(sys.path))
    with (tmp_path / "output").open("wb") as output:
        streams = [os.open(os.devnull, os.O_RDONLY), output.fileno(), output.fileno()]
        loading = [start(["load"], tmp_path, env, streams) for _ in range(3)]
        assert [process.wait(120) for process in loading] == [0] * 3
        os.close(streams[0])
    printed = (tmp_path / "output").read_text()
    assert printed.count(f"kernels of {_width()} columns") == 3, printed
    assert [*kernels.folder.iterdir()] == [kernels.file]
    assert kernels.file.stat().st_size > len(kernels.made)


def _width() -> int:
    library = built.library()
    assert library is not None
    width: int = library.panel_width()
    return width


def test_a_file_that_is_cut_off_later_harms_no_running_process(kernels: Kernels) -> None:
    library = built._loaded(kernels.build())
    os.truncate(kernels.file, 0)
    library.panel_width.restype = built.library().panel_width.restype  # type: ignore[union-attr]
    assert library.panel_width() == _width()


def test_kernels_are_loaded_from_a_private_file_where_nothing_runs_from_memory(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str) -> int:
        raise PermissionError("not allowed")

    monkeypatch.setattr(os, "memfd_create", refused)
    assert built._loaded(kernels.made).panel_width() == _width()
