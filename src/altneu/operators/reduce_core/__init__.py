"""Functions of groups that see their own output and say how it changes."""
