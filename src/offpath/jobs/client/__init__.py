"""The client side: sending jobs, waiting for them, reading them, acting on them."""
