"""FastAPI: an app as long as the service lives, jobs in the session's transaction.

::

    api = FastAPI(lifespan=lifespan(jobs))
    errors(api)
    Jobs = Annotated[offpath.Bound, Depends(bound(jobs, get_session))]


    @api.post("/orders", status_code=201)
    async def place(order: Order, session: Session, jobs: Jobs) -> Placed: ...
"""

from __future__ import annotations

from offpath.errors import MissingExtra

try:
    import fastapi as _fastapi
except ImportError as error:
    raise MissingExtra("offpath.contrib.fastapi needs FastAPI", "fastapi") from error

from offpath.contrib.fastapi.dependencies import blocking_bound, bound, later
from offpath.contrib.starlette import Later, errors, lifespan

__all__ = ["Later", "blocking_bound", "bound", "errors", "later", "lifespan"]

del _fastapi
