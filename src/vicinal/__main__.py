"""``python -m vicinal``: the command, for the Python that is at hand."""

from vicinal.cli import main

if __name__ == "__main__":
    main()
