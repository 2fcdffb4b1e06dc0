"""Jobs in Django's admin, read-only, with the actions of an operator.

Django finds this module by itself where ``django.contrib.admin`` is installed. A page costs the
same number of queries whatever its length, and never counts beyond 10,000 rows. Actions go through
the same door as those of the dashboard, so each leaves its row in the audit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.paginator import Paginator
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from offpath.app import App
from offpath.contrib.django.models import QUEUED, TaskJob, jobs_alias, jobs_backend
from offpath.contrib.django.table import table_of
from offpath.errors import InvalidArgument, OffpathError
from offpath.model.action import ActionRecord
from offpath.model.job import JobRecord
from offpath.model.redact import redact, redact_text
from offpath.operating.actions import Asker, ask, carry_out
from offpath.operating.orders import ActionAsked
from offpath.operating.verbs import verb_of
from offpath.runtime.ids import parse_id

MOST: Final = 10_000
"""The most rows that are counted."""
_STATES: Final = ("queued", "blocked", "running", "succeeded", "dead", "cancelled")


class BoundedPaginator(Paginator):  # type: ignore[misc] # Django ships no types
    """A paginator that counts no further than ``MOST``: a table of millions stays quick."""

    _counted: int | None = None

    @property
    def count(self) -> int:
        """The number of rows, ``MOST`` at most; asked for once."""
        if self._counted is None:
            self._counted = int(self.object_list.order_by()[:MOST].count())
        return self._counted


class StateFilter(admin.SimpleListFilter):  # type: ignore[misc] # as above
    """The states, as offpath names them."""

    title = "state"
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - Django's
        """The choices."""
        return [(one, one) for one in _STATES]

    def queryset(self, _request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """The jobs in the chosen state."""
        chosen = self.value()
        if chosen == "queued":
            return queryset.filter(state__in=QUEUED)
        return queryset.filter(state=chosen) if chosen in _STATES else queryset


class NameFilter(admin.SimpleListFilter):  # type: ignore[misc] # as above
    """Names that the code declares: no row is read to find them."""

    names: Callable[[App], Iterable[str]]

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - Django's
        """The choices."""
        return [(one, one) for one in sorted(set(type(self).names(_app())))]

    def queryset(self, _request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """The jobs with the chosen name."""
        chosen = self.value()
        return queryset.filter(**{self.parameter_name: chosen}) if chosen else queryset


class TaskFilter(NameFilter):
    """The tasks that this process knows."""

    title = parameter_name = "task"
    names = staticmethod(lambda app: app.tasks)


class QueueFilter(NameFilter):
    """The queues that the settings name."""

    title = parameter_name = "queue"

    @staticmethod
    def names(_app: App) -> Iterable[str]:
        """The names."""
        return (name for one in settings.TASKS.values() for name in one.get("QUEUES", _PLAIN))


@admin.register(TaskJob)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc] # as above
    """The list and the page of jobs."""

    list_display = ("task", "queue", "shown_state", "attempt", "enqueued_at", "run_at", "reason")
    list_filter = (StateFilter, TaskFilter, QueueFilter)
    list_per_page = 50
    show_full_result_count = False
    paginator = BoundedPaginator
    search_fields = ("pk",)
    search_help_text = "The id of a job."
    actions = ("redrive", "cancel", "discard")
    ordering = ("-id",)
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """The jobs, in the database where they are."""
        return super().get_queryset(request).using(jobs_alias())

    def get_search_results(
        self, _request: HttpRequest, queryset: QuerySet, term: str
    ) -> tuple[QuerySet, bool]:
        """The job with an id: anything else would be looked for in every row."""
        term = term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(pk=parse_id(term, "id")), False
        except InvalidArgument:
            return queryset.none(), False

    @admin.display(description="state")  # type: ignore[untyped-decorator] # as above
    def shown_state(self, job: TaskJob) -> str:
        """The state."""
        return job.shown_state

    # -- one job -----------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, _job: TaskJob | None = None) -> tuple[str, ...]:
        """The fields of a page; payload only with the right to see it."""
        return (*_FIELDS, *_PAYLOAD) if request.user.has_perm("offpath.view_payload") else _FIELDS

    def get_readonly_fields(
        self, request: HttpRequest, job: TaskJob | None = None
    ) -> tuple[str, ...]:
        """All of them."""
        return self.get_fields(request, job)

    def arguments(self, job: TaskJob) -> str:
        """The arguments, secrets hidden by the names of their fields."""
        return _shown(_record(job).input)

    def result(self, job: TaskJob) -> str:
        """The result, as the arguments."""
        return _shown(_record(job).result)

    def errors(self, job: TaskJob) -> str:
        """The failures, one below another."""
        return "\n".join(redact_text(f"{one.type}: {one.message}") for one in _record(job).failures)

    # -- what may be done ----------------------------------------------------------------------

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """No: a job is made by a task."""
        return False

    def has_change_permission(self, _request: HttpRequest, _job: TaskJob | None = None) -> bool:
        """No: a job is changed by actions."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _job: TaskJob | None = None) -> bool:
        """No: a job is discarded by an action."""
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """True if somebody may act on jobs."""
        allowed: bool = request.user.has_perm("offpath.act_job")
        return allowed

    @admin.action(description="Redrive (dead, cancelled)", permissions=["act"])  # type: ignore[untyped-decorator]
    def redrive(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Put jobs back."""
        self._act(request, queryset, "job.redrive")

    @admin.action(description="Cancel", permissions=["act"])  # type: ignore[untyped-decorator]
    def cancel(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Cancel jobs."""
        self._act(request, queryset, "job.cancel")

    @admin.action(description="Discard (those that have ended)", permissions=["act"])  # type: ignore[untyped-decorator]
    def discard(self, request: HttpRequest, queryset: QuerySet) -> TemplateResponse | None:
        """Remove jobs that have ended, once somebody has said that they may go."""
        if request.POST.get("sure"):
            self._act(request, queryset, "job.delete", confirm=str(MOST))
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Discard these jobs?",
            "opts": self.opts,
            "jobs": queryset[: self.list_per_page],
            "count": queryset.count(),
            "name": ACTION_CHECKBOX_NAME,
            "ids": queryset.values_list("pk", flat=True)[:MOST],
            "all": request.POST.get("select_across", "0"),
        }
        return TemplateResponse(request, "admin/offpath/taskjob/discard.html", context)

    def _act(
        self, request: HttpRequest, queryset: QuerySet, verb: str, confirm: str | None = None
    ) -> None:
        """Do a verb to these jobs, with a row in the audit, and tell what came of it."""
        ids = list(queryset.values_list("pk", flat=True)[:MOST])
        asked = ActionAsked(verb=verb, target={"ids": ids}, confirm=confirm)
        app = _app()

        async def done() -> ActionRecord:
            by = Asker(name=request.user.get_username(), via="admin")
            await app.open()
            return await carry_out(app, await ask(app, asked, by))

        try:
            record = app.blocking.run(done)
        except OffpathError as error:
            self.message_user(request, redact_text(str(error)), messages.ERROR)
            return
        level = messages.SUCCESS if record.error is None else messages.ERROR
        self.message_user(request, _told(verb_of(verb).done, record), level)


_PLAIN: Final = ("default",)
"""The queues of a backend that names none, by Django's rule."""
_FIELDS: Final = (
    *("id", "task", "queue", "shown_state", "reason", "priority", "attempt", "worker"),
    *("enqueued_at", "run_at", "started_at", "finished_at"),
)
_PAYLOAD: Final = ("arguments", "result", "errors")


def _app() -> App:
    """The app of the backend whose jobs these are."""
    return table_of(jobs_backend() or "default").app()


def _record(job: TaskJob) -> JobRecord:
    """A job as the store has it, read once for a page."""
    if not hasattr(job, "offpath_record"):
        job.offpath_record = _app().blocking.bound(connections[jobs_alias()]).get(job.pk)
    record: JobRecord = job.offpath_record
    return record


def _shown(text: str | None) -> str:
    if text is None:
        return ""
    try:
        return json.dumps(redact(json.loads(text)), ensure_ascii=False, indent=1)
    except ValueError:
        return redact_text(text)


def _told(done: str, record: ActionRecord) -> str:
    """The outcome of an action, in a sentence."""
    parts = [f"{record.changed} {done}"]
    if record.unchanged:
        why = ", ".join(f"{count} {reason}" for reason, count in record.reasons.items())
        parts.append(f"{record.unchanged} left alone" + (f" ({why})" if why else ""))
    if record.error is not None:
        parts.append(record.error)
    return "; ".join(parts)
