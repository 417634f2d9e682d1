"""`python -m apolar`: the command line."""

from apolar.cli import main

if __name__ == "__main__":
    main(prog_name="apolar")
