"""Several models behind one address, each in a process of its own on this machine."""
