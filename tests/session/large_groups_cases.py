"""A function of groups that Spark's workers import by its name: those of test modules they cannot."""


def listed(key, rows):
    yield repr([(*row, n) for row, n in rows])
