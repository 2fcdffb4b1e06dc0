"""The parts of a job that outlive an attempt: recorded steps, sleeps, waits for signals, and undo
jobs.
"""
