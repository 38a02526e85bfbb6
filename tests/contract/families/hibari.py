from contract.subject import Subject

SUBJECT = Subject("hibari", ("Hello there.", "One two three. Four five.", "Good morning.", "Is it you? Yes. It is."))
