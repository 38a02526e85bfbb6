"""Speaks with preset voices of a Voxtral-TTS checkpoint: python examples/voxtral_voices.py CHECKPOINT [VOICE ...]"""

import sys

from rhapsode import TTS

TEXTS = {
    "fr": "Il fait beau aujourd'hui.",
    "es": "Hoy hace buen tiempo.",
    "de": "Heute ist das Wetter schön.",
    "it": "Oggi è una bella giornata.",
    "pt": "Hoje o tempo está bom.",
    "nl": "Het is vandaag mooi weer.",
    "ar": "الطقس جميل اليوم.",
    "hi": "आज मौसम अच्छा है।",
}

with TTS(sys.argv[1]) as tts:
    for voice in sys.argv[2:] or ("casual_male", "fr_female", "hi_male"):
        text = TEXTS.get(voice.split("_")[0], "The weather is lovely today.")
        audio = tts.speak(text, voice=voice, seed=7)
        print(audio.save(f"{voice}.wav"), audio)
