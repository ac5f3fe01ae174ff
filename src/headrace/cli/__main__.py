"""`python -m headrace.cli`, where the console script is not on the path."""

from headrace.cli.app import main

main()
