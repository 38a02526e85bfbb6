"""Speaks an SSML document with pauses: python examples/ssml.py [MODEL]"""

import sys

from rhapsode import TTS

DOCUMENT = """<speak>
  <p>
    <s>Flight <say-as interpret-as="characters">BA</say-as> <say-as interpret-as="digits">117</say-as> is late.</s>
    <s>The price is $12.50.</s>
  </p>
  <break time="700ms"/>
  <prosody rate="slow">Please do not forget your <sub alias="identity card">ID</sub>.</prosody>
</speak>"""

with TTS(sys.argv[1] if len(sys.argv) > 1 else None) as tts:
    audio = tts.speak(DOCUMENT, input_type="ssml", normalise=True)
    audio.save("ssml.wav")
    print(f"ssml.wav: {audio.duration_s:.2f} s")
