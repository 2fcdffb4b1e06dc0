"""The former place of the economy's HTTP service."""

raise ImportError(
    "the economy's HTTP service is in offpath.economy.web: "
    "from offpath.economy.web import economy_service"
)
