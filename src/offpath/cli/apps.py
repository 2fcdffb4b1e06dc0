"""The app that a command works with: one on a store, or the one at ``module:attribute``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isfunction
from pathlib import Path

from offpath.app import App
from offpath.config import MEMORY_URL, Settings, load_settings, normal_url
from offpath.errors import ConfigurationError, OffpathError
from offpath.model.redact import redact_text, redact_url
from offpath.operating.schema_check import require_schema


def store_settings(url: str | None, of_app: str | None = None) -> Settings:
    """The settings, with a URL that other processes can see too: those of the app that is given,
    otherwise the :func:`named_settings`.

    Raises ``ConfigurationError`` where nothing names a store.
    """
    if of_app is not None:
        return load_shared_app(of_app, url).settings
    settings = named_settings(url)
    if settings.url != MEMORY_URL:
        return settings
    if settings.app is not None:
        return load_shared_app(settings.app, None).settings
    raise ConfigurationError(
        "no database is named: give --app MODULE:APP or --url sqlite:///file.db (or "
        "postgresql://…), or set OFFPATH_APP, OFFPATH_URL or DATABASE_URL"
    )


def named_settings(url: str | None) -> Settings:
    """The settings from everywhere. Where they name no store it is that of the app that they name,
    and ``DATABASE_URL`` where that one names none. They may name none at all.
    """
    settings = load_settings(url=url)
    if settings.url != MEMORY_URL:
        return settings
    if settings.app is not None and (own := load_app(settings.app).settings).url != MEMORY_URL:
        return own
    return load_settings(url=url, database_url=True)


def store_app(
    url: str | None, of_app: str | None = None, *, create: bool = False
) -> AbstractAsyncContextManager[App]:
    """An app without tasks on a store, which is named as :func:`store_settings` takes it.

    Opening it raises ``SchemaMissing`` where nothing ever was, unless it may ``create``: a mistyped
    file name is not to become an empty database that looks fine.
    """
    app = App(settings=store_settings(url, of_app), auto_start=False)
    return app if create else _migrated(app)


@asynccontextmanager
async def _migrated(app: App) -> AsyncIterator[App]:
    await require_schema(app)
    async with app:
        yield app


def given_app(
    target: str | None, url: str | None, *, create: bool = False
) -> AbstractAsyncContextManager[App]:
    """The app at ``target`` if one is given, otherwise one on a store."""
    return store_app(url, create=create) if target is None else load_shared_app(target, url)


def known_app(
    target: str | None, url: str | None, *, create: bool = False
) -> AbstractAsyncContextManager[App]:
    """The app at ``target``, otherwise that of the settings; with a URL alone one on that store.
    Raises as :func:`settings_app`.
    """
    own = None if target or url else settings_app()
    return given_app(target, url, create=create) if own is None else own


def settings_app() -> App | None:
    """The app that the settings name, if they do.

    Raises ``ConfigurationError`` where they also name another store than its own: commands that
    need no code of it work on that one.
    """
    settings = load_settings()
    if settings.app is None:
        return None
    app = load_shared_app(settings.app, None)
    if settings.url not in {MEMORY_URL, app.settings.url}:
        own, other = redact_url(app.settings.url), redact_url(settings.url)
        raise ConfigurationError(
            f"which store? {settings.app} names its own, {own}, and the settings name {other}: "
            f"give --app {settings.app} or --url {other}"
        )
    return app


def load_app(target: str) -> App:
    """The app at ``target``. The working directory is importable, as with ``python -m``.

    A module of settings that name a backend of ours (``shop.settings``, as Django's) stands for the
    app of that backend.

    Raises ``ConfigurationError`` that says which part was not found, or where the module fails.
    """
    module_name, sign, _ = target.partition(":")
    if module_name and not sign and (app := _of_settings(module_name)) is not None:
        return app
    found = object_at(target)
    carried = _carried_by(found)
    if isfunction(carried) and not target.endswith("()"):
        raise ConfigurationError(
            f"{target} is a function, not an offpath.App: if it makes the app, write `{target}()`"
        )
    if not isinstance(carried, App):
        kind = type(carried).__name__
        raise ConfigurationError(
            f"{target} is not an offpath.App but a {kind}; a FastAPI or Starlette app "
            'carries one as `state.offpath`, a Flask app as `extensions["offpath"]`'
        )
    return carried


def object_at(target: str) -> object:
    """The object at ``module:attribute``; with ``()`` behind it, the value that the function gives.

    Raises ``ConfigurationError`` as :func:`load_app` does.
    """
    module_name, sign, path = target.partition(":")
    if not sign or not module_name or not path:
        raise ConfigurationError(f"{target!r} names no app: write module:attribute, as jobs:app")
    if module_name.endswith(".py"):
        module = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigurationError(f"{module_name} is a file: write its module, {module}:{path}")
    found: object = _module(module_name)
    for name in path.removesuffix("()").split("."):
        if not hasattr(found, name):
            raise ConfigurationError(
                f"{target}: {module_name} has no attribute {path!r}{_like(name, found)}"
            )
        found = getattr(found, name)
    return found() if path.endswith("()") and callable(found) else found


def _like(name: str, owner: object) -> str:
    """The attribute that may be meant: one with a name like it, otherwise an app."""
    from difflib import get_close_matches

    public = [one for one in getattr(owner, "__dict__", ()) if not one.startswith("_")]
    apps = [one for one in public if isinstance(getattr(owner, one), App)]
    near = get_close_matches(name, apps, n=1) or get_close_matches(name, public, n=1) or apps[:1]
    return f"; did you mean {near[0]!r}?" if near else ""


def _of_settings(name: str) -> App | None:
    """The app of a project whose settings are this module; None if it has no backend of ours.

    The settings name the backend's class, and the package of it knows how to set the project up.
    """
    backends = getattr(_module(name), "TASKS", None)
    for alias, backend in backends.items() if isinstance(backends, dict) else ():
        package = str(backend.get("BACKEND", "")).rpartition(".")[0]
        makes = getattr(_module(package), "app_of_settings", None) if package else None
        if makes is not None:
            app: App = makes(name, alias)
            return app
    return None


def _carried_by(found: object) -> object:
    """The app that a web framework's app carries where its framework has such things; otherwise
    it.
    """
    state, extensions = getattr(found, "state", None), getattr(found, "extensions", None)
    if (carried := getattr(state, "offpath", None)) is not None:
        return carried
    return extensions.get("offpath", found) if isinstance(extensions, dict) else found


def target_of(*given: str | None) -> str:
    """The app that a command works with: named to it in one way, or by the setting ``app``.

    Raises ``ConfigurationError`` when there is none, or are two.
    """
    named = {target for target in given if target}
    if len(named) > 1:
        raise ConfigurationError(f"which app? {' and '.join(sorted(named))} are two: name one")
    target = next(iter(named), None) or load_settings().app
    if target is None:
        raise ConfigurationError("which app? Write --app module:attribute, or set OFFPATH_APP")
    return target


def load_shared_app(target: str, url: str | None) -> App:
    """The app at ``target``, on a store that other processes see; ``url`` if it names none.

    Raises ``ConfigurationError`` when it keeps its jobs in memory or names another store.
    """
    if url is not None:
        os.environ["OFFPATH_URL"] = normal_url(url)
    app = load_app(target)
    if app.settings.url == MEMORY_URL:
        raise ConfigurationError(
            f"{target} keeps its jobs in memory, where no other process sees them: give the app "
            "a URL, or set OFFPATH_URL"
        )
    if url is not None and app.settings.url != load_settings(url=url).url:
        own = redact_url(app.settings.url)
        raise ConfigurationError(f"{target} names its own store, {own}: leave --url out")
    return app


def _module(name: str) -> object:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise ConfigurationError(
            f"there is no module {name!r} (looked in {folder} and on PYTHONPATH)"
        ) from error
    except OffpathError:
        raise
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> ConfigurationError:
    """The user's module, which fails on import, with the place where it does."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = redact_text(f"{type(error).__name__}: {error}")
    return ConfigurationError(
        f"module {name} cannot be imported: {text} ({last.filename}, line {last.lineno})"
    )
