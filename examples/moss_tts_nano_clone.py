"""Clones a voice with MOSS-TTS-Nano: python examples/moss_tts_nano_clone.py CHECKPOINT REFERENCE.wav ["its words"]"""

import sys

from rhapsode import TTS, Audio, Voice

checkpoint, reference, *words = sys.argv[1:4]
clip = Audio.open(reference)
text = "Whatever I say now is said in that voice. A long text is spoken in parts, and the voice stays the same."

with TTS(checkpoint) as tts:
    cloned = tts.speak(text, Voice.cloned(clip))
    print(cloned.save("clone.wav"), cloned)  # stereo
    mono = tts.speak(text, Voice.cloned(clip), channels=1)
    print(mono.save("clone_mono.mp3"), mono)
    if words:
        continued = tts.speak(text, Voice.cloned(clip, words[0]))
        print(continued.save("continued.wav"), continued)
