"""litellm, where it is installed: in an environment of its own, since it needs another version of OpenAI's SDK."""

import subprocess
from pathlib import Path

import pytest

from e2e.clients.installed import environment_of
from e2e.serve.running import LETTER_S, Running
from rhapsode.audio.decode import decode

SCRIPT = Path(__file__).parent / "litellm_speak.py"


def test_litellm_speaks_and_understands_an_error(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "said.wav"
    command = [environment_of("litellm"), SCRIPT, server.url, file]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr.decode()
    clip = decode(file.read_bytes())
    assert clip.samples.shape[-1] / clip.sample_rate == pytest.approx(12 * LETTER_S, abs=0.01)
    assert done.stdout.decode().startswith("400 ")
    assert "there is no voice 'nobody' here" in done.stdout.decode()
