"""``python -m offpath``."""

from offpath.cli import main

if __name__ == "__main__":
    main()
