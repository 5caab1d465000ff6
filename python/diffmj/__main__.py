"""`python -m diffmj` is the program `diffmj`."""

from ._cli import main

main()
