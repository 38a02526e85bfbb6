"""`rhapsode bench engine`: the time of a frame and of its sections, throughput, memory."""
