"""One address for several servers: checks keys and limits, chooses a server by model and load, and forwards."""
