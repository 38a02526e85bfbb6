"""ElevenLabs' API for speech, in front of the same model: a client needs another base URL and nothing else."""
