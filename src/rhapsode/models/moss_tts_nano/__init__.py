"""MOSS-TTS-Nano: a small talker with sixteen codes per frame, and a transformer codec; 48 kHz stereo."""
