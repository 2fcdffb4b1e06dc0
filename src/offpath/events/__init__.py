"""Events: facts that leave the service."""
