"""``app.blocking``: the client for code without an event loop."""
