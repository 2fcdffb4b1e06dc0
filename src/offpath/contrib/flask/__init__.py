"""Flask: an app whose handlers run in the application context, and ``flask offpath``.

::

    jobs = Offpath()


    def create_app() -> Flask:
        app = Flask(__name__)
        jobs.init_app(app)
        return app
"""

from __future__ import annotations

from offpath.errors import MissingExtra

try:
    import flask as _flask
except ImportError as error:
    raise MissingExtra("offpath.contrib.flask needs Flask", "flask") from error

from offpath.contrib.flask.extension import AfterRequest, Offpath

__all__ = ["AfterRequest", "Offpath"]

del _flask
