"""Speaks a dialogue of a cloned and a described voice with Higgs audio v2, saved while it arrives:

python examples/higgs_dialogue.py VOICE.wav [http://127.0.0.1:8000]
"""

import base64
import sys
import urllib.request
from json import dumps
from pathlib import Path

url = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8000"
voice = base64.b64encode(Path(sys.argv[1]).read_bytes()).decode()
SCENE = """Two friends talk in a small kitchen.

SPEAKER0:
SPEAKER1: a calm old man with a deep voice"""  # the first one takes the reference

body = {
    "input": "[SPEAKER0] Did you hear that?\n[SPEAKER1] It is only the wind.",
    "response_format": "wav",
    "scene": SCENE,
    "references": [{"audio": f"data:audio/wav;base64,{voice}"}],
}
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(f"{url}/v1/audio/speech", dumps(body).encode(), headers)
with urllib.request.urlopen(request) as answer, open("dialogue.wav", "wb") as file:
    while piece := answer.read1(1 << 16):
        file.write(piece)
        print(f"{len(piece)} bytes")
print("dialogue.wav")
