from contract.subject import Subject

SUBJECT = Subject("dummy", ("Hi.", "A longer text.", "Something else altogether, with more in it.", "One two three."))
