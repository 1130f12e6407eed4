"""As-of joins by event time and by arrival."""
