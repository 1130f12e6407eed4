"""Views, and what else is read: readers of a store beside its session, and answers that are given once."""
