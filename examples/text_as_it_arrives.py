"""Speaks text while it is being appended: python examples/text_as_it_arrives.py [MODEL]"""

import sys
import threading
import time

from rhapsode import TTS


def write_slowly(stream, text):
    for word in text.split():
        stream.append(word + " ")
        time.sleep(0.15)  # as a language model would
    stream.finish_text()


with TTS(sys.argv[1] if len(sys.argv) > 1 else None) as tts, tts.stream("", text_open=True) as stream:
    text = "This sentence is spoken while it is being written. So is this one. Nobody waits for the end."
    threading.Thread(target=write_slowly, args=(stream, text)).start()
    started_s = time.perf_counter()
    for chunk in stream:
        print(f"{time.perf_counter() - started_s:6.2f} s  {chunk.duration_s:.2f} s of audio")
