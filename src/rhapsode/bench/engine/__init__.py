"""`rhapsode bench engine`: what a frame costs, and where the time goes."""
