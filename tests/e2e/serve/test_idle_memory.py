"""What an idle server gives back: the memory of a model that was unloaded, and that of requests that have ended."""

import sys
import time
from pathlib import Path

import pytest

from e2e.serve.running import Running, running
from e2e.serve.test_engine_process import wait_for
from e2e.serve.test_stalled import ask, reset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
LONG = "The river runs past the old mill every day. " * 20
SPOKEN = {"input": "Hello there.", "response_format": "pcm"}


def memory_mib(server: Running) -> float:
    assert server.process
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_an_unloaded_model_returns_its_memory(tmp_path: Path) -> None:
    held = []
    with running("rhapsode-nano", tmp_path, server={"idle_unload_s": 1.0}, limits={"max_concurrency": 2}) as server:
        for _ in range(2):
            with server.http.stream("POST", "/v1/audio/speech", json=SPOKEN) as answer:
                next(answer.iter_raw(1))
                loaded = memory_mib(server)
            wait_for(lambda: not server.metric("rhapsode_model_loaded"), "the model is still loaded")
            wait_for(lambda loaded=loaded: memory_mib(server) < loaded - 100, "its memory is not given back")
            time.sleep(0.5)  # for the rest of it
            held.append(memory_mib(server))
    assert held[-1] < held[0] + 40


@pytest.mark.slow
def test_clients_that_never_read_leave_no_memory_behind(tmp_path: Path) -> None:
    with running("rhapsode-nano", tmp_path, limits={"max_concurrency": 8, "real_time": False}) as server:
        assert server.http.post("/v1/audio/speech", json=SPOKEN).status_code == 200
        server.settle()
        time.sleep(2)  # what is not needed at rest is given back
        before = memory_mib(server)
        silent = [ask(server.port, input=f"{number}. {LONG}") for number in range(8)]
        wait_for(lambda: memory_mib(server) > before + 60, "they hold too little to tell", 200)
        for client in silent:
            reset(client)
        server.settle(timeout_s=30)
        wait_for(lambda: memory_mib(server) < before + 40, "too much is left behind")
