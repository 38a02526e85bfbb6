"""Clones a voice with VoxCPM2 in three ways: python examples/voxcpm2_clone.py CHECKPOINT REFERENCE.wav "its words" """

import sys

from rhapsode import TTS, Audio, Voice

checkpoint, reference, words = sys.argv[1:4]
clip = Audio.open(reference)
text = "Whatever I say now is said in that voice."

with TTS(checkpoint) as tts:
    told_how = tts.speak(text, Voice.cloned(clip), instructions="slightly faster, cheerful")
    print(told_how.save("controllable_clone.wav"), told_how)
    continued = tts.speak(text, Voice.cloned(clip, words))
    print(continued.save("ultimate_clone.wav"), continued)
    both = tts.speak(text, Voice.cloned(clip, words), options={"cloning": "both"})
    print(both.save("reference_and_continued.wav"), both)
