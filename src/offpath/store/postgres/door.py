"""The defaults of jobs that are put in by SQL, by task."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.job import NewJob
from offpath.store.postgres.steps import to_json
from offpath.store.programs.dialect import Steps, ask
from offpath.store.sql import Catalogue


def keep_steps(templates: Sequence[NewJob], *, sql: Catalogue) -> Steps[None]:
    """Write the templates that are new or have changed."""
    # sorted, as workers that begin together write the same rows
    batch = to_json(sorted(templates, key=lambda job: job.task))
    yield from ask(sql["keep_templates"](batch=batch), last=True)
