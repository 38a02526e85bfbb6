"""Clients for Node.js, where they are installed: OpenAI's and ElevenLabs' SDKs and Vercel's AI SDK."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.clients.installed import node_modules
from e2e.serve.running import LETTER_BYTES, LETTER_S, Running
from rhapsode.audio.decode import decode

SCRIPT = Path(__file__).parent / "node" / "speak.mjs"


def speak(client: str, server: Running, folder: Path) -> bytes:
    """What the script writes; it runs beside a link to the packages, since imports are found by place."""
    (folder / "node_modules").symlink_to(node_modules())
    script = shutil.copy(SCRIPT, folder)
    done = subprocess.run(["node", script, client, server.url], capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("client", ["whole", "streamed", "vercel"])
def test_node_clients_speak(server: Running, tmp_path: Path, client: str) -> None:
    clip = decode(speak(client, server, tmp_path))
    assert clip.samples.shape[-1] / clip.sample_rate == pytest.approx(12 * LETTER_S, abs=0.01)
    assert abs(clip.samples).max() > 0.01


def test_the_openai_sdk_for_node_understands_an_error(server: Running, tmp_path: Path) -> None:
    error = json.loads(speak("error", server, tmp_path))
    assert error == {"type": "BadRequestError", "status": 400, "param": "voice"}


def test_elevenlabs_for_node_speaks_twenty_times_beside_an_idle_connection(server: Running, tmp_path: Path) -> None:
    told = json.loads(speak("elevenlabs", server, tmp_path))
    assert told == {"sizes": [12 * LETTER_BYTES] * 20, "beside": True}
