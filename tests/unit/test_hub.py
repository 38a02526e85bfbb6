"""With the hub's real client and a hub on loopback: what is needed is fetched, its size is told, and it goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.command import environment, rhapsode
from unit.hub_server import Hub, hub_of

MIB = 2**20
FETCH = """
import signal

from rhapsode.models.registry import find

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
print(find("owner/name").checkpoint)
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["RhapsodeDummy"]}')
    header = b'{"__metadata__": {}}'
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(48 * MIB))
    (folder / "model.bin").write_bytes(bytes(MIB))  # a pickled copy of the same weights
    with hub_of(folder) as served:
        yield served


def place(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """The environment in which the client asks this hub."""
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": ""}


def test_describing_a_checkpoint_fetches_no_weights(hub: Hub, tmp_path: Path) -> None:
    done = rhapsode("models", "owner/name", cwd=tmp_path, **place(hub, tmp_path))
    assert done.returncode == 0, done.stderr.decode()
    assert "owner/name" in done.stdout.decode()
    assert "config.json" in hub.sent
    assert hub.sent.get("model.safetensors", 0) < 1000
    assert "model.bin" not in hub.sent


def test_a_family_is_recognised_by_the_name_of_a_file_that_is_not_fetched(hub: Hub, tmp_path: Path) -> None:
    (hub.folder / "config.json").unlink()
    (hub.folder / "model.safetensors").rename(hub.folder / "talker_large.safetensors")
    code = (
        "from dataclasses import replace\n"
        "from rhapsode.models import registry\n"
        "from rhapsode.models.base import Layout\n"
        "from rhapsode.models.dummy.spec import SPEC\n"
        "spec = replace(SPEC, layouts=(Layout('talker_*.safetensors'),))\n"
        "registry.families = lambda: ({spec.name: spec}, ())\n"
        "print(registry.described('owner/name')[0].name)"
    )
    given = {**environment(), **place(hub, tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, timeout=100, check=True)
    assert done.stdout.decode().strip() == "dummy"
    assert 0 < hub.sent["talker_large.safetensors"] < 1000


def test_a_download_says_its_size_first_and_goes_on_after_ctrl_c(hub: Hub, tmp_path: Path) -> None:
    hub.slow = "model.safetensors"
    command = [sys.executable, "-c", FETCH]
    given = {**environment(), **place(hub, tmp_path)}
    first = subprocess.Popen(command, cwd=tmp_path, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline_s = time.monotonic() + 60
    while hub.sent.get(hub.slow, 0) < 24 * MIB and time.monotonic() < deadline_s:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    interrupted_s = time.monotonic()
    _, told = first.communicate(timeout=60)
    assert first.returncode != 0
    assert time.monotonic() - interrupted_s < 5
    assert "downloading owner/name: 0.05 GB in 1 file;" in told.decode()
    before, hub.slow = hub.sent["model.safetensors"], ""
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, timeout=100, check=True)
    resumed = [start for name, start in hub.starts if name == "model.safetensors"][-1]
    assert 0 < resumed <= before
    folder = Path(done.stdout.decode().strip())
    assert (folder / "model.safetensors").stat().st_size == (hub.folder / "model.safetensors").stat().st_size
    assert not (folder / "model.bin").exists()


def test_weights_that_nobody_reads_are_left_there(hub: Hub, tmp_path: Path) -> None:
    (hub.folder / "inner").mkdir()
    (hub.folder / "inner" / "model.safetensors").write_bytes(bytes(2 * MIB))
    code = (
        "from rhapsode.checkpoints import hub\n"
        "from rhapsode.models.cosyvoice3.spec import SPEC\n"
        "assert SPEC.unread == ('CosyVoice-BlankEN/*.safetensors',)\n"
        "print(hub.fetch('owner/name', hub.FILES, ('inner/*.safetensors',)))"
    )
    given = {**environment(), **place(hub, tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, timeout=100, check=True)
    folder = Path(done.stdout.decode().strip())
    assert (folder / "model.safetensors").is_file()
    assert not (folder / "inner").exists()
    assert "inner/model.safetensors" not in hub.sent
    assert os.path.getsize(folder / "config.json")
