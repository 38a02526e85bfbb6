"""Clones a voice with Chatterbox: python examples/chatterbox_clone.py CHECKPOINT REFERENCE.wav"""

import sys

from rhapsode import TTS, Audio, Voice

checkpoint, reference = sys.argv[1:3]
voice = Voice.cloned(Audio.open(reference))

with TTS(checkpoint) as tts:
    said = tts.speak("Hello there. A long text is spoken sentence by sentence.", voice)
    print(said.save("clone.wav"), said)
    if tts.engine.info.variant in ("original", "multilingual"):
        excited = tts.speak("I can hardly believe it!", voice, exaggeration=1.2, cfg_weight=0.3)
        print(excited.save("excited.wav"), excited)
    else:
        tagged = tts.speak("[chuckle] I can hardly believe it!", voice)
        print(tagged.save("chuckle.wav"), tagged)
