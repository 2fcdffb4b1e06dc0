"""Runs ``python -m offpath …`` on uvloop: ``on_uvloop.py PYTHON -m offpath worker …``."""

from __future__ import annotations

import asyncio
import runpy
import sys

import uvloop

if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    # as the interpreter's own -m would
    sys.path[0] = ""
    sys.argv = sys.argv[3:]
    sys.stderr.write("on uvloop\n")
    runpy.run_module("offpath", run_name="__main__", alter_sys=True)
