"""Storage: one interface whose write methods are whole transitions, and its backends."""
