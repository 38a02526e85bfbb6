"""The ids of ElevenLabs' premade voices, which quick starts and frameworks name. Each stands for one of our presets."""

from __future__ import annotations

import asyncio

from rhapsode.serve.request.names import DEFAULT_VOICE
from rhapsode.serve.service import Service

PREMADE = (
    "21m00Tcm4TlvDq8ikWAM",
    "JBFqnCBsd6RMkjVDRZzb",
    "EXAVITQu4vr4xnSDxMaL",
    "pNInz6obpgDQGcFmaJgB",
    "9BWtsMINqrJLrRacOk9x",
    "CwhRBWXzGAHq8TQ4Fs17",
    "FGY2WhTYpPnrIDTdsKH5",
    "IKne3meq5aSn9XLyUdCD",
    "XB0fDUnXU5powFXDhCwa",
    "N2lVS1w4EtoT3dr4eOWO",
    "Xb7hH8MSUJpSbSDYk0k2",
    "TX3LPaxmHKxFdv7VOQHJ",
    "XrExE9yKIg1WjnnlVkGX",
    "bIHbv24MWmeRgasZH58o",
    "cgSgspJ2msm6clMCkdW9",
    "cjVigY5qzO86Huf0OWal",
    "pFZP5JQG7iQjIQuC4Bku",
    "iP95p4xoKVk53GoZ742B",
    "SAz9YHcvj6GT2YYXdXww",
    "nPczCjzI2devNBz1zQrb",
    "AZnzlk1XvdvUeBnXmlld",
    "onwK4e9ZLuTAKqWW03F9",
    "MF3mGyEYCl7XYWbV9V6O",
    "pqHfZKP75CvOlQylNhV4",
    "ErXwobaYiN019PkySvjV",
    "TxGEqnHWrfWFTfGW9XjX",
    "VR6AewLTigWG4xSOukaG",
    "yoZ06aMxZJJ28mfd3POQ",
)
"""Their order never changes: an id always stands for the same preset of a model."""


async def own_voice(service: Service, voice_id: str) -> str:
    """Returns the preset that a premade voice stands for; any other name or id is returned unchanged.

    The deployment's aliases and uploaded voices of the same name take precedence.
    """
    presets = service.info.voices
    if voice_id not in PREMADE or voice_id in service.intake.aliases or voice_id in presets:
        return voice_id
    if await asyncio.to_thread(service.store.get, voice_id) is not None:
        return voice_id
    if presets:
        return presets[PREMADE.index(voice_id) % len(presets)]
    return DEFAULT_VOICE if service.info.default_voice else voice_id
