"""``offpath dashboard``: look at jobs, queues and workers in a browser."""

from __future__ import annotations

import ipaddress
import os
import secrets
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import load_shared_app, store_settings
from offpath.cli.frame import app_option, framed, option_group, url_option
from offpath.config import normal_url
from offpath.errors import ConfigurationError, MissingExtra
from offpath.web import auth
from offpath.web.mount import DashboardTerms, mounted
from offpath.web.prefix import under

PORT = 8787
_TOKEN = "OFFPATH_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable
Shown = App | str | dict[str, App | str]


def _shown(target: str | None, url: str | None, names: Sequence[str]) -> Shown:
    """The databases to look at. Raises ``ConfigurationError``."""
    if names and (target or url):
        raise click.UsageError("--name names several databases: leave --app and --url out")
    if target is not None:
        return load_shared_app(target, url)
    if not names:
        return store_settings(url).url
    pairs = [one.partition("=") for one in names]
    if bad := [name for name, sign, place in pairs if not (sign and name and place)]:
        raise click.UsageError(f"--name is NAME=URL, as shop=postgresql://…; not {bad[0]!r}")
    return {name: normal_url(place) for name, _, place in pairs}


_databases = option_group(
    "shown",
    _shown,
    click.option(
        "--name",
        "names",
        multiple=True,
        metavar="NAME=URL",
        help="A database and its name; may be repeated for several.",
    ),
    app_option("The app whose database is shown."),
    url_option,
)


def _terms_of(hosts: Sequence[str], **given: Any) -> DashboardTerms:  # noqa: ANN401 - the terms' own
    """The terms on which it is shown."""
    return DashboardTerms(hosts=frozenset(one.lower() for one in hosts), **given)


_terms = option_group(
    "terms",
    _terms_of,
    click.option("--title", default="offpath", help="The words above the menu.", show_default=True),
    click.option("--read-only", is_flag=True, help="Let nobody change anything."),
    click.option("--accent", metavar="COLOUR", help="A colour for this database, as red or green."),
    click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="A host name that is answered, beside this machine's own; may be repeated.",
    ),
)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"A file with the token that signs in.  [env: {_TOKEN}]",
)
@click.option("--prefix", default="", metavar="PATH", help="The path below which a proxy shows it.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser of this machine.")
@_terms
@_databases
@framed(json=False)
def dashboard(
    *,
    host: str,
    port: int,
    token_file: Path | None,
    prefix: str,
    opens: bool,
    terms: DashboardTerms,
    shown: Shown,
) -> int:
    r"""Look at jobs, queues, workers and schedules in a browser.

    It listens on this machine only, and prints a link that signs in once, within a minute. On
    another address it wants a token. What it changes is kept: see offpath audit list.

    \b
    offpath dashboard --url sqlite:///work.db
    offpath dashboard --name shop=postgresql://db/shop --name mail=sqlite:///mail.db
    offpath dashboard --host 0.0.0.0 --token-file /run/secrets/offpath
    """
    given, local = _token(token_file), _is_loopback(host)
    if given is None and not local:
        raise click.UsageError(
            f"{host} is reached by others: give --token-file, or set {_TOKEN}, so that they sign in"
        )
    try:
        from offpath.dashboard.server import listen, serve
        from offpath.web.console.sign_in import OneTimeCode
    except ImportError as error:
        raise MissingExtra("the dashboard needs more packages", "dashboard") from error
    known = auth.token(given or secrets.token_urlsafe(24))
    code = None if given else OneTimeCode("token", time.monotonic)
    terms = replace(terms, loopback=local)
    app = under(mounted(shown, known, terms, code), prefix)
    with listen(host, port) as listener:
        taken = listener.getsockname()[1]
        link = _link(host, taken, prefix, None if code is None else code.text)
        serve(app, listener, lambda: _tell(link, once=code is not None, opens=opens))
    return 0


def _token(file: Path | None) -> str | None:
    """The token that was given. Raises ``ConfigurationError``."""
    if file is None:
        return os.environ.get(_TOKEN) or None
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--token-file: cannot read {file}: {error}") from error
    if not text:
        raise ConfigurationError(f"--token-file: {file} is empty")
    return text


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _link(host: str, port: int, prefix: str, code: str | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    path = f"/{prefix.strip('/')}" if prefix.strip("/") else ""
    return f"http://{shown}:{port}{path}/" + (f"sign-in?code={code}" if code else "")


def _tell(link: str, *, once: bool, opens: bool) -> None:
    click.echo(link)
    output.note("the link signs in once, within a minute" if once else "sign in with the token")
    if opens:
        webbrowser.open(link)
