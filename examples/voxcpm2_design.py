"""Speaks zero-shot, and with a voice made from a description: python examples/voxcpm2_design.py CHECKPOINT"""

import sys

from rhapsode import TTS, Voice

with TTS(sys.argv[1]) as tts:
    plain = tts.speak("Whoever speaks this is up to the seed.", seed=7)
    print(plain.save("zero_shot.wav"), plain)
    sailor = Voice(description="An old sailor, hoarse and warm, in no hurry")
    described = tts.speak("The sea was calm that night.", sailor, options={"cfg_value": 2.5})
    print(described.save("voice_design.wav"), described)
