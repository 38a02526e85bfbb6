"""The engine in a process of its own, so that HTTP and the device loop do not wait for one interpreter's lock."""
