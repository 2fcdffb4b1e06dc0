"""For the tests of code that uses offpath: a memory app, a clock moved by hand, assertions."""

from offpath.runtime.clock import ManualClock

__all__ = ["ManualClock"]
