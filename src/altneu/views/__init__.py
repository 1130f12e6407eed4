"""Views, readers of a store that another process writes, and queries that are answered once."""
