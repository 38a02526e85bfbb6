"""`rhapsode bench serve`: what the clients of a speech server get under load."""
