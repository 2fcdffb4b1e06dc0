"""The sections of the menu, and what is shown beside what."""

from __future__ import annotations

from typing import Final

SECTIONS: Final = (
    (
        "",
        (("overview", "/", "Overview"), ("stats", "/stats", "Charts")),
    ),
    (
        "Work",
        (
            ("jobs", "/jobs", "Jobs"),
            ("dead", "/dead", "Dead letters"),
            ("groups", "/groups", "Groups"),
            ("gates", "/gates", "Gates"),
            ("signals", "/signals", "Signals"),
            ("tasks", "/tasks", "Tasks"),
            ("queues", "/queues", "Queues"),
            ("schedules", "/schedules", "Schedules"),
            ("limits", "/limits", "Limits"),
        ),
    ),
    (
        "Events",
        (
            ("messages", "/messages", "Messages"),
            ("endpoints", "/endpoints", "Endpoints"),
            ("log", "/log", "Log"),
            ("routers", "/routers", "Routers"),
        ),
    ),
    (
        "Service",
        (
            ("workers", "/workers", "Workers"),
            ("sweeps", "/sweeps", "Sweeps"),
            ("health", "/health", "Health"),
            ("actions", "/actions", "Actions"),
            ("config", "/config", "Configuration"),
        ),
    ),
)
"""The menu: headings, each with the name, the path and the words of its pages."""
BESIDE: Final = {
    "jobs": ("counts",),
    "job": ("steps", "children"),
    "dead": ("faults", "counts"),
    "group": ("graph",),
    "health": ("doctor",),
}
"""Readings that are shown on another one's page."""
