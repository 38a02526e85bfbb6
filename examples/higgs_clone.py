"""Clones a voice with Higgs TTS v3 and tags how it speaks, saved while it arrives:

python examples/higgs_clone.py VOICE.wav "its words" [http://127.0.0.1:8000]
"""

import base64
import sys
import urllib.request
from json import dumps
from pathlib import Path

url = sys.argv[3] if len(sys.argv) > 3 else "http://127.0.0.1:8000"
body = {
    "input": "<|emotion:elation|>You came after all! <|sfx:laughter|> Sit down, the tea is ready.",
    "response_format": "wav",
    "ref_audio": f"data:audio/wav;base64,{base64.b64encode(Path(sys.argv[1]).read_bytes()).decode()}",
    "ref_text": sys.argv[2],
}
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(f"{url}/v1/audio/speech", dumps(body).encode(), headers)
with urllib.request.urlopen(request) as answer, open("cloned.wav", "wb") as file:
    while piece := answer.read1(1 << 16):
        file.write(piece)
        print(f"{len(piece)} bytes")
print("cloned.wav")
