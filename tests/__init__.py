"""The project's tests; a package, so that no installed one of the same name is found instead."""
