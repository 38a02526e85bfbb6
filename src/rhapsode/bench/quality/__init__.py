"""`rhapsode bench quality`: how well speech is understood, and how it sounds."""
