"""The schema of the first release.

Until that is made it has every step. Then the numbers are written down here, and each step that
comes later has a migration of its own.
"""

from __future__ import annotations

from django.db import migrations

from offpath.contrib.django.migration import SchemaSteps


class Migration(migrations.Migration):  # type: ignore[misc] # Django ships no types
    """All steps so far."""

    initial = True
    operations = (SchemaSteps(),)
