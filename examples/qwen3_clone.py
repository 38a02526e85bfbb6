"""Clones a voice with Qwen3-TTS Base: python examples/qwen3_clone.py CHECKPOINT REFERENCE.wav "its words" """

import sys

from rhapsode import TTS, Audio, Voice

checkpoint, reference, words = sys.argv[1:4]
clip = Audio.open(reference)
text = "Whatever I say now is said in that voice."

with TTS(checkpoint) as tts:
    in_context = tts.speak(text, Voice.cloned(clip, words), language="English")
    print(in_context.save("clone_in_context.wav"), in_context)
    by_speaker = tts.speak(text, Voice.cloned(clip), language="English", options={"x_vector_only_mode": True})
    print(by_speaker.save("clone_by_speaker.wav"), by_speaker)
