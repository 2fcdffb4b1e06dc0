"""Schedules: jobs that are made by themselves, once per occurrence in the whole fleet."""
