"""ASGI apps to mount in a service of your own. Needs the extra ``web``."""
