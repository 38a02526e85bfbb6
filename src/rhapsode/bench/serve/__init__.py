"""`rhapsode bench serve`: what a client hears of any speech server, under load."""
