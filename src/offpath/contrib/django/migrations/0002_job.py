"""Jobs as a model, for permissions and the admin. It stands on a table that is there already."""

from __future__ import annotations

from django.db import migrations, models

from offpath.contrib.django.models import JobId, StoredTime, TaskJob

_TEXTS = {name: models.CharField(max_length=1000) for name in ("task", "queue")}
_MAYBE = {name: models.CharField(max_length=1000, null=True) for name in ("reason", "worker")}


class Migration(migrations.Migration):  # type: ignore[misc] # Django ships no types
    """The model in Django's own record; no table is touched."""

    dependencies = (("offpath", "0001_initial"),)
    operations = (
        migrations.CreateModel(
            name="TaskJob",
            fields=[
                ("id", JobId(primary_key=True, serialize=False, max_length=36)),
                *_TEXTS.items(),
                ("state", models.CharField(max_length=20)),
                ("priority", models.IntegerField()),
                ("attempt", models.BigIntegerField()),
                ("enqueued_at", StoredTime()),
                ("run_at", StoredTime(verbose_name="due")),
                ("started_at", StoredTime(null=True)),
                ("finished_at", StoredTime(null=True)),
                *_MAYBE.items(),
            ],
            options={
                "managed": False,
                "verbose_name": "job",
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "permissions": TaskJob._meta.permissions,  # noqa: SLF001 - Django's own
            },
        ),
    )
