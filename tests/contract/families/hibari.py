from rhapsode.testing.subject import Subject

TEXTS = ("Hello there.", "One two three. Four five.", "Good morning.", "Is it you? Yes. It is.")
SUBJECTS = (Subject("hibari", TEXTS),)
