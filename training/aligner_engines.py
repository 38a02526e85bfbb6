"""Teachers of the aligner that are C libraries: Flite (CMU voices) and eSpeak NG, with the times they tell.

Debian has both (`libflite1`, `libespeak-ng1`, `espeak-ng-data`). They are small, fast and unlike neural speech.
"""

from __future__ import annotations

import ctypes
import re
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from aligner_speech import SpeltUtterance, WordSpan, spell, trimmed
from aligner_text import words_of

FLITE_VOICES = {"slt": "cmu_us_slt", "rms": "cmu_us_rms", "awb": "cmu_us_awb", "kal16": "cmu_us_kal16"}
ESPEAK_VARIANTS = ("f2", "f3", "f4", "m1", "m3", "m4", "m7", "Andrea", "Annie", "Michael", "linda", "david", "klatt4")


class _Wave(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("samples", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("data", ctypes.POINTER(ctypes.c_short)),
    ]


class FliteTeacher:
    def __init__(self, voice: str) -> None:
        self._flite = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
        for name in ("libflite_cmulex.so.1", "libflite_usenglish.so.1"):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(f"libflite_{FLITE_VOICES[voice]}.so.1")
        for function in ("flite_synth_text", "utt_relation", "relation_head", "item_next", "path_to_item", "utt_wave"):
            getattr(self._flite, function).restype = ctypes.c_void_p
        self._flite.flite_ffeature_float.restype = ctypes.c_float
        self._flite.flite_ffeature_string.restype = ctypes.c_char_p
        self._flite.flite_init()
        register = getattr(library, f"register_{FLITE_VOICES[voice]}")
        register.restype = ctypes.c_void_p
        self._voice = ctypes.c_void_p(register(None))

    def say(self, text: str, pace: float = 1.0) -> SpeltUtterance | None:
        flite, words = self._flite, words_of(text)
        features = ctypes.c_void_p.from_address(self._voice.value + ctypes.sizeof(ctypes.c_void_p))  # after its name
        flite.flite_feat_set_float(features, b"duration_stretch", ctypes.c_float(1 / pace))
        utterance = ctypes.c_void_p(flite.flite_synth_text(text.encode(), self._voice))
        try:
            wave = _Wave.from_address(flite.utt_wave(utterance))
            audio = np.ctypeslib.as_array(wave.data, (wave.samples,)).astype(np.float32) / 32768
            spans = self._spans(utterance, words or [])
            return spell(wave.rate, audio, trimmed(spans, audio, wave.rate)) if spans else None
        finally:
            flite.delete_utterance(utterance)

    def _spans(self, utterance: ctypes.c_void_p, words: list[str]) -> list[WordSpan] | None:
        flite, found, start = self._flite, [], 0.0
        segment = flite.relation_head(ctypes.c_void_p(flite.utt_relation(utterance, b"Segment")))
        while segment:
            item = ctypes.c_void_p(segment)
            word = flite.path_to_item(item, b"R:SylStructure.parent.parent")
            end = flite.flite_ffeature_float(item, b"end")
            found.append((word, start, end))
            start, segment = end, flite.item_next(item)
        parts = [list(same) for word, same in groupby(found, lambda one: one[0]) if word]
        if len(parts) != len(words):
            return None
        edges = [np.array([part[0][1], *(end for *_, end in part)]) for part in parts]
        return [WordSpan(word, times) for word, times in zip(words, edges, strict=True)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("id", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_SYNCHRONOUS, _PHONEME_EVENTS = 2, 1
_END_OF_LIST, _WORD, _PHONEME = 0, 1, 7
_UTF8 = 1


class EspeakTeacher:
    def __init__(self, data: str) -> None:
        self._espeak = ctypes.CDLL("libespeak-ng.so.1")
        self._rate = self._espeak.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _PHONEME_EVENTS)
        self._sound: list[np.ndarray] = []
        self._events: list[tuple[int, int, int]] = []
        self._callback = _CALLBACK(self._hear)  # kept: the library holds only its address
        self._espeak.espeak_SetSynthCallback(self._callback)

    def _hear(self, samples: Any, count: int, events: Any) -> int:
        if samples and count:
            self._sound.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / 32768)
        index = 0
        while events[index].type != _END_OF_LIST:
            self._events.append((events[index].type, events[index].text_position, events[index].sample))
            index += 1
        return 0

    def say(self, text: str, voice: str, pace: float = 1.0) -> SpeltUtterance | None:
        self._sound, self._events = [], []
        self._espeak.espeak_SetVoiceByName(voice.encode())
        self._espeak.espeak_SetParameter(1, int(160 * pace), 0)
        content = text.encode() + b"\0"
        self._espeak.espeak_Synth(content, len(content), 0, 1, 0, _UTF8, None, None)
        words, audio = words_of(text), np.concatenate([*self._sound, np.zeros(1, np.float32)])
        begins = {match.start() + 1 for match in re.finditer(r"\S+", text)}  # its other word events are false
        starts = [sample for kind, position, sample in self._events if kind == _WORD and position in begins]
        if words is None or len(starts) != len(words):
            return None
        phonemes = sorted(sample for kind, _, sample in self._events if kind == _PHONEME)
        spans = []
        for word, (start, end) in zip(words, pairwise([*starts, len(audio)]), strict=True):
            inside = [at for at in phonemes if start < at < end]
            spans.append(WordSpan(word, np.array([start, *inside, end]) / self._rate))
        return spell(self._rate, audio, trimmed(spans, audio, self._rate))
