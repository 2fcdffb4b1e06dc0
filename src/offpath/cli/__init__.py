"""The command line: ``offpath`` and ``python -m offpath``.

Exit codes of every command: 0 done, 1 it failed (or a job did), 2 wrong usage or configuration,
3 nothing of that id or name, 4 the store cannot be reached.
"""


def main() -> None:
    """Run the command line and exit."""
    from offpath.cli.main import cli

    cli()


__all__ = ["main"]
