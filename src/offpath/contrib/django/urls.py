"""The dashboard: ``path("jobs/", include("offpath.contrib.django.urls"))``."""

from __future__ import annotations

from offpath.contrib.django.mounted import dashboard_urls

app_name = "offpath"
urlpatterns = dashboard_urls()
