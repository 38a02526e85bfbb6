"""A server whose model was unloaded holds no memory for it, however often that happens."""

import sys
import time
from pathlib import Path

import pytest

from e2e.serve.running import Running, running
from e2e.serve.test_engine_process import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
SPOKEN = {"input": "Hello there.", "response_format": "pcm"}


def memory_mib(server: Running) -> float:
    assert server.process
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_an_unloaded_model_returns_its_memory(tmp_path: Path) -> None:
    held = []
    with running("rhapsode-nano", tmp_path, server={"idle_unload_s": 1.0}, limits={"max_concurrency": 2}) as server:
        for _ in range(2):
            assert server.http.post("/v1/audio/speech", json=SPOKEN).status_code == 200
            loaded = memory_mib(server)
            wait_for(lambda: not server.metric("rhapsode_model_loaded"), "the model is still loaded")
            time.sleep(0.5)  # its memory is returned after the metric says so
            held.append(memory_mib(server))
            assert held[-1] < loaded - 100
    assert held[-1] < held[0] + 40
