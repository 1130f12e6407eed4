"""TPC-H: the eight tables, the 22 queries with their answers, and refresh steps; for the tests and case m."""
