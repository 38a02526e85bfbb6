"""`python -m rhapsode` is `rhapsode`."""

from rhapsode.cli.main import main

main()
