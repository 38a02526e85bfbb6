"""Speaks with a preset voice and an instruction: python examples/qwen3_custom_voice.py CHECKPOINT"""

import sys

from rhapsode import TTS

with TTS(sys.argv[1]) as tts:
    audio = tts.speak(
        "I did not expect to see you here.",
        voice="vivian",
        language="English",
        instructions="Pleasantly surprised.",
        seed=7,
    )
    print(audio.save("custom_voice.wav"), audio)
