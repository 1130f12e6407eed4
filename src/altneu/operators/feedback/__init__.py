"""Feedback from one time of a session to a later one."""
