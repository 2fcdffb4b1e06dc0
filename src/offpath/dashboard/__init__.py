"""The command ``offpath dashboard``: the dashboard with a server of its own.

It stands above both the command line and the web, which do not import each other.
"""
