"""`python -m autorubric` is the `autorubric` command."""

from autorubric.cli import main

if __name__ == "__main__":
    main()
