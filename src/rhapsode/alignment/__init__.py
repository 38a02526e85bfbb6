"""Word times: an acoustic model hears the speech, a search finds the known words in it."""
