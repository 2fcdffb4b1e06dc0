"""Integrations: offpath in the frameworks and tools that people run already.

Each is a package of its own, ``offpath.contrib.<name>``, and loads its library when it is imported;
``import offpath`` loads none. ``pip install 'offpath[<name>]'`` brings the library.
"""
