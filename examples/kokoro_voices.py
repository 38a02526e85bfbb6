"""Speaks with voices of Kokoro, and with a mix of two: python examples/kokoro_voices.py [CHECKPOINT] [VOICE ...]"""

import sys

from rhapsode import TTS

TEXT = "The weather is lovely today. Shall we go for a walk?"

model, *voices = sys.argv[1:] or ["kokoro"]
with TTS(model) as tts:
    for voice in voices or ("af_heart", "bm_george", "af_heart(2)+af_bella(1)"):
        audio = tts.speak(TEXT, voice=voice, seed=7)
        print(audio.save(f"{voice}.wav"), audio)
