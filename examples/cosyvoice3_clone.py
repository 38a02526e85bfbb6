"""Clones a voice with CosyVoice3: python examples/cosyvoice3_clone.py CHECKPOINT REFERENCE.wav "its words" """

import sys

from rhapsode import TTS, Audio, Voice

checkpoint, reference, words = sys.argv[1:4]
clip = Audio.open(reference)

with TTS(checkpoint) as tts:
    said = tts.speak("Hello there.", Voice.cloned(clip, words))
    print(said.save("clone.wav"), said)
    # Without a transcript: for a text in another language, with tags for sounds.
    other = tts.speak("[breath]Bonjour.[laughter]", Voice.cloned(clip))
    print(other.save("cross_lingual.wav"), other)
    slow = tts.speak("Good morning.", Voice.cloned(clip), instructions="Please speak very slowly.")
    print(slow.save("instructed.wav"), slow)
    # Text that arrives while it is spoken: five tokens of text, then fifteen of speech.
    with tts.stream("", Voice.cloned(clip, words), text_open=True) as stream:
        for word in ("One", "two", "three", "four", "five."):
            stream.append(f"{word} ")
        stream.finish_text()
        print(f"{sum(chunk.duration_s for chunk in stream):.2f} s of audio")
