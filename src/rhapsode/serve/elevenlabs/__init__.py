"""ElevenLabs' speech API, served by the same model: a client of ElevenLabs changes only its base URL."""
