from contract.burst import BURST, BURST_CHAIN
from contract.chain import CHAIN
from contract.incremental import INCREMENTAL
from rhapsode.testing.subject import Subject

TEXTS = ("Hi.", "A longer text.", "Something else altogether, with more in it.", "One two three.")
SUBJECTS = (
    Subject("dummy", TEXTS),
    Subject("dummy", TEXTS, variant="chain", spec=CHAIN),
    Subject("dummy", TEXTS, variant="incremental", spec=INCREMENTAL),
    Subject("dummy", TEXTS, variant="burst", spec=BURST),
    Subject("dummy", TEXTS, variant="burst-chain", spec=BURST_CHAIN),
)
