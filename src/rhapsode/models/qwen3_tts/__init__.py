"""Qwen3-TTS 12 Hz: Base (cloning), CustomVoice (presets) and VoiceDesign (descriptions)."""
