"""Calls this server with ElevenLabs' SDK: python examples/elevenlabs_client.py [URL]

Needs pip install elevenlabs
"""

import sys

from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
client = ElevenLabs(base_url=url, api_key="none")  # a key of the server, if it has keys

voices = client.voices.get_all().voices
print("voices:", ", ".join(voice.voice_id for voice in voices))

audio = client.text_to_speech.convert(voices[0].voice_id, text="Hello there.", output_format="mp3_44100_128")
with open("hello.mp3", "wb") as file:
    file.writelines(audio)

stream = client.text_to_speech.stream(
    voices[0].voice_id,
    text="This is heard while it is still being said.",
    model_id="eleven_flash_v2_5",  # any name of ElevenLabs' models is the served model
    output_format="pcm_24000",
    voice_settings=VoiceSettings(speed=1.1),  # other settings have no effect
)
print(f"{sum(map(len, stream)) / 2 / 24_000:.2f} s of audio")
