"""A process that was started before it is known whether it is needed never outlives that."""

from pathlib import Path

import pytest

from rhapsode.cli import serve
from rhapsode.config import resolve
from rhapsode.errors import RhapsodeError
from rhapsode.serve.process import spawn as spawning
from rhapsode.serve.process.engine_process import begin


@pytest.fixture
def early():
    spawned = spawning.spawn()
    yield spawned
    spawned.kill()


def test_it_ends_with_the_connection(early):
    assert early.process.poll() is None
    early.end.close()
    assert early.process.wait(60) == 0


def test_it_ends_where_the_engine_is_in_the_server_s_own_process(early):
    assert begin(resolve(env={}, flags={"device": "cpu"}), early) is None
    assert early.process.poll() is not None


def test_it_ends_where_the_deployment_is_wrong(early, monkeypatch):
    monkeypatch.setattr(serve, "spawn_early", lambda device: early)
    with pytest.raises(RhapsodeError):
        serve.run_server(Path("there-is-no-such-file.yaml"), {})
    assert early.process.poll() is not None


@pytest.mark.parametrize(("device", "gpu", "starts"), [("cpu", True, False), (None, False, False), (None, True, True)])
def test_it_is_started_early_only_where_there_is_a_gpu_to_use(monkeypatch, device, gpu, starts):
    monkeypatch.setattr(spawning, "has_gpu", lambda: gpu)
    monkeypatch.setattr(spawning, "spawn", lambda: "process")
    assert (spawning.spawn_early(device) is not None) == starts
