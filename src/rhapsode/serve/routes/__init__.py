"""One file per route, each with a `router(service)`."""
