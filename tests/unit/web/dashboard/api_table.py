"""The table of the JSON API as it was specified: each method and path, and the right it needs."""

from __future__ import annotations

from typing import Final

PAYLOAD: Final = "read (+payload)"
BY_VERB: Final = "by verb"

TABLE: Final = (
    ("GET", "/overview", "read"),
    ("GET", "/stats", "read"),
    ("GET", "/jobs", "read"),
    ("GET", "/jobs/{id}", PAYLOAD),
    ("GET", "/jobs/{id}/steps", PAYLOAD),
    ("GET", "/jobs/{id}/children", PAYLOAD),
    ("GET", "/faults", "read"),
    ("GET", "/groups", "read"),
    ("GET", "/groups/{id}", "read"),
    ("GET", "/groups/{id}/graph", "read"),
    ("GET", "/gates", "read"),
    ("GET", "/signals", "read"),
    ("GET", "/queues", "read"),
    ("GET", "/queues/{name}", "read"),
    ("GET", "/tasks", "read"),
    ("GET", "/tasks/{name}", "read"),
    ("GET", "/tasks/{name}/schema", "read"),
    ("GET", "/schedules", "read"),
    ("GET", "/schedules/{name}", "read"),
    ("GET", "/schedules/{name}/occurrences", "read"),
    ("GET", "/limits", "read"),
    ("GET", "/workers", "read"),
    ("GET", "/workers/{id}", "read"),
    ("GET", "/messages", PAYLOAD),
    ("GET", "/messages/{id}", PAYLOAD),
    ("GET", "/streams", PAYLOAD),
    ("GET", "/endpoints", "read"),
    ("GET", "/endpoints/{name}", "read"),
    ("GET", "/events", PAYLOAD),
    ("GET", "/events/{id}", PAYLOAD),
    ("GET", "/routers", "read"),
    ("GET", "/routers/{name}", "read"),
    ("GET", "/routers/{name}/attempts", "read"),
    ("GET", "/routers/{name}/letters", "read"),
    ("GET", "/sweeps", "read"),
    ("GET", "/settlements", "read"),
    ("GET", "/runs", "read"),
    ("GET", "/ledger", PAYLOAD),
    ("GET", "/ledger/accounts", PAYLOAD),
    ("GET", "/ledger/accounts/{id}", PAYLOAD),
    ("GET", "/ledger/accounts/{id}/statement", PAYLOAD),
    ("GET", "/ledger/postings/{id}", PAYLOAD),
    ("GET", "/ledger/checkpoints", PAYLOAD),
    ("GET", "/payouts", "read"),
    ("GET", "/subscriptions", "read"),
    ("GET", "/health", "read"),
    ("GET", "/doctor", "read"),
    ("GET", "/actions", "read"),
    ("GET", "/actions/{id}", "read"),
    ("GET", "/config", "read"),
    ("GET", "/me", "read"),
    ("POST", "/actions", BY_VERB),
    ("POST", "/actions/preview", BY_VERB),
    ("POST", "/actions/{id}/stop", BY_VERB),
)

ELSEWHERE: Final = {
    # an account is told with its statement, which is paged there by the same fields
    ("GET", "/ledger/accounts/{id}/statement"): ("GET", "/ledger/accounts/{id}"),
}
"""Rows of the table that have another place, each with that place."""

BESIDE: Final = {
    ("GET", "/openapi.json"): "the description, which the text above the table names",
    ("GET", "/counts"): "the numbers above a list of jobs, which are the same for every filter",
    (
        "GET",
        "/dead",
    ): "the jobs of one state, as the page of dead letters and its exports have them",
    ("GET", "/routers/{router}/checks"): "what must hold for a router, as its command checks it",
    ("GET", "/ledger/audit"): "the findings about the books, which came with their release",
    ("GET", "/ledger/backing"): "the platform's cash against what it owes, as its command has it",
}
"""Routes that the table does not have, each with its reason."""
