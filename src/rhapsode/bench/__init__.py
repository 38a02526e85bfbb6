"""Numbers anyone can reproduce: the engine's speed, a server's speed under load, and the quality of what is said."""
