"""A Flask application as the command line loads an app: ``offpath.contrib.flask.project:jobs``.

Importing it finds the application as ``flask`` does, by ``FLASK_APP``.
"""

from __future__ import annotations

import os
from typing import Any

from flask.cli import ScriptInfo

from offpath.errors import ConfigurationError


def _found() -> Any:  # noqa: ANN401 - an App
    app = ScriptInfo(app_import_path=os.environ.get("FLASK_APP")).load_app()
    if "offpath" not in app.extensions:
        raise ConfigurationError(
            f"the Flask application {app.name!r} has no offpath: call jobs.init_app(app)"
        )
    return app.extensions["offpath"]


jobs = _found()
