"""Speaks a dialogue of two cloned voices with Fish S2-Pro, played or saved while it arrives:

python examples/fish_dialogue.py FIRST.wav "its words" SECOND.wav "its words" [http://127.0.0.1:8000]
"""

import base64
import sys
import urllib.request
from json import dumps
from pathlib import Path

first, first_words, second, second_words = sys.argv[1:5]
url = sys.argv[5] if len(sys.argv) > 5 else "http://127.0.0.1:8000"
TEXT = (
    "<|speaker:0|>Did you hear that? "
    "<|speaker:1|>[whisper] I did. Somebody is at the door. "
    "<|speaker:0|>[laughing] It is only the wind."
)


def reference(path, words):
    data = base64.b64encode(Path(path).read_bytes()).decode()
    return {"audio": f"data:audio/wav;base64,{data}", "text": words}


body = {
    "input": TEXT,
    "response_format": "wav",
    "seed": 1,  # the same dialogue again
    "references": [reference(first, first_words), reference(second, second_words)],  # speakers 0 and 1
}
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(f"{url}/v1/audio/speech", dumps(body).encode(), headers)
with urllib.request.urlopen(request) as answer, open("dialogue.wav", "wb") as file:
    while piece := answer.read1(1 << 16):
        file.write(piece)
        print(f"{len(piece)} bytes")
print("dialogue.wav")
