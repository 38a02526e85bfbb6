"""Drives real servers with good, bad and broken clients for a long time, and checks that nothing is left behind."""
