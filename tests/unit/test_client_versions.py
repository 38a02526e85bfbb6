"""The versions in the table of docs/clients.md are those that the tests install."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests/e2e/clients"
PAGE = (ROOT / "docs/clients.md").read_text("utf-8")
ROW = re.compile(r"^\| (?P<client>[^|]+) \| (?P<versions>[\d., ]+) \|", re.MULTILINE)
PYTHON, LARGE, LITELLM = (
    ROOT / "constraints.txt",
    CLIENTS / "constraints.txt",
    CLIENTS / "constraints-litellm.txt",
)
INSTALLED = {
    "`openai` (Python)": [(PYTHON, "openai")],
    "`elevenlabs` (Python)": [(PYTHON, "elevenlabs")],
    "`wyoming` (Home Assistant)": [(PYTHON, "wyoming")],
    "LiveKit agents, OpenAI plugin": [(LARGE, "livekit-plugins-openai")],
    "LiveKit agents, ElevenLabs plugin": [(LARGE, "livekit-plugins-elevenlabs")],
    "Pipecat, OpenAI service": [(LARGE, "pipecat-ai")],
    "Pipecat, ElevenLabs service": [(LARGE, "pipecat-ai")],
    "litellm": [(LITELLM, "litellm")],
    "`openai` (Node.js)": [(CLIENTS / "node/package.json", "openai")],
    "`@elevenlabs/elevenlabs-js` (Node.js)": [(CLIENTS / "node/package.json", "@elevenlabs/elevenlabs-js")],
    "Vercel AI SDK (`ai`, `@ai-sdk/openai`)": [
        (CLIENTS / "node/package.json", "ai"),
        (CLIENTS / "node/package.json", "@ai-sdk/openai"),
    ],
}


def installed(file: Path, name: str) -> str:
    text = file.read_text("utf-8")
    if file.suffix == ".json":
        return str(json.loads(text)["dependencies"][name])
    found = re.search(rf"^{re.escape(name)}==(\S+)$", text, re.MULTILINE)
    assert found, f"{file.name} has no {name}"
    return found[1]


def test_every_client_of_the_table_is_installed_in_the_version_that_is_told() -> None:
    told = {row["client"]: row["versions"] for row in ROW.finditer(PAGE)}
    assert told == {
        client: ", ".join(installed(file, name) for file, name in packages) for client, packages in INSTALLED.items()
    }


@pytest.mark.parametrize("server", ["vLLM-Omni", "SGLang-Omni", "Kokoro-FastAPI"])
def test_the_version_of_each_server_that_is_followed_is_told(server: str) -> None:
    assert re.search(rf"^### {server}\n\nVersion \d+\.\d+", PAGE, re.MULTILINE)
