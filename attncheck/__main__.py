"""``python -m attncheck``."""

from attncheck.cli.main import main

if __name__ == "__main__":
    main()
