"""Collections and their verbs: how queries are written in Python."""
