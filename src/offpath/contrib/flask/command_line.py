"""Our command line behind ``flask offpath``: Flask finds the application, ours does the rest."""

from __future__ import annotations

import os
from typing import Final

import click
from flask import current_app
from flask.cli import ScriptInfo, with_appcontext

PROJECT: Final = "offpath.contrib.flask.project:jobs"


@click.command(
    "offpath",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    help="Offpath's command line on this application, as in: flask offpath worker",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_appcontext
@click.pass_context
def offpath(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run what follows by our own command line, on the application that Flask found."""
    from offpath.cli.main import cli

    path = context.ensure_object(ScriptInfo).app_import_path
    if path is not None:
        os.environ["FLASK_APP"] = path  # the processes that a worker starts look there
    os.environ["OFFPATH_APP"] = PROJECT
    os.environ["OFFPATH_URL"] = current_app.extensions["offpath"].settings.url
    cli(list(arguments), prog_name="flask offpath")
