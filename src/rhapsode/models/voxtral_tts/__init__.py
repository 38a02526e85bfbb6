"""Voxtral-TTS: a semantic code by argmax and acoustic numbers by a flow head per frame; a causal codec; 24 kHz."""
