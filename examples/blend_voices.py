"""Blends two voices by their speaker embeddings: python examples/blend_voices.py A.json B.json [URL]

Each file holds one embedding, a JSON list as long as the served model takes (`embedding_size` in /v1/models).
Writes five steps, blend-0.mp3 (all A) to blend-4.mp3 (all B), and uploads the middle one as the voice "blend".
"""

import json
import math
import sys
import urllib.request
from pathlib import Path

STEPS = 5


def between(a: list[float], b: list[float], share: float) -> list[float]:
    """Returns the spherical interpolation of the directions, and the linear one of the lengths."""
    length_a, length_b = math.hypot(*a), math.hypot(*b)
    cosine = sum(x * y for x, y in zip(a, b, strict=True)) / (length_a * length_b)
    angle = math.acos(max(-1.0, min(1.0, cosine)))
    if angle < 1e-6:
        weights = 1 - share, share
    else:
        weights = math.sin((1 - share) * angle) / math.sin(angle), math.sin(share * angle) / math.sin(angle)
    length = (1 - share) * length_a + share * length_b
    return [length * (weights[0] * x / length_a + weights[1] * y / length_b) for x, y in zip(a, b, strict=True)]


def post(url: str, body: dict) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read()


if __name__ == "__main__":
    one, other = (json.loads(Path(file).read_text()) for file in sys.argv[1:3])
    url = sys.argv[3] if len(sys.argv) > 3 else "http://127.0.0.1:8000"
    for step in range(STEPS):
        voice = between(one, other, step / (STEPS - 1))
        wish = {"input": "Who am I now?", "speaker_embedding": voice, "seed": 1, "stream": False}
        Path(f"blend-{step}.mp3").write_bytes(post(f"{url}/v1/audio/speech", wish))
    middle = {"name": "blend", "consent": "both speakers agree", "speaker_embedding": between(one, other, 0.5)}
    print(post(f"{url}/v1/audio/voices", middle).decode())
