"""CosyVoice3: a language model of speech tokens, a flow that makes mel frames of them, and a vocoder."""
