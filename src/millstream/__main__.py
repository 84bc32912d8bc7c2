"""`python -m millstream` is the command `millstream`."""

from millstream.cli.main import run

if __name__ == "__main__":
    run()
