"""Jobs: defining, enqueuing, running and reading them."""
