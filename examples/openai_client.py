"""Calls this server with the OpenAI SDK: python examples/openai_client.py [URL]"""

import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
client = OpenAI(base_url=f"{url}/v1", api_key="none")

client.audio.speech.create(model="tts-1", voice="alloy", input="Hello there.").write_to_file("hello.mp3")

with client.audio.speech.with_streaming_response.create(
    model="tts-1",
    voice="alloy",
    input="This is heard while it is still being said.",
    response_format="pcm",  # 24 kHz, 16 bit, mono
    extra_body={"seed": 7},  # what OpenAI does not have goes here
) as response:
    print("request", response.headers["X-Request-Id"], "at", response.headers["X-Sample-Rate"], "Hz")
    for part in response.iter_bytes():
        print(f"{len(part) / 2 / 24_000:.2f} s of audio")
