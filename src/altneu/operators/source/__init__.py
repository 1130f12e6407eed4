"""Sources: rows that a session is given, constants, and commands to sources that are sets or have a key."""
