"""Speaks with a voice made from a description: python examples/qwen3_voice_design.py CHECKPOINT"""

import sys

from rhapsode import TTS, Voice

with TTS(sys.argv[1]) as tts:
    voice = Voice(description="An old sailor, hoarse and warm, in no hurry.")
    audio = tts.speak("The sea was calm that night.", voice, language="English")
    print(audio.save("voice_design.wav"), audio)
