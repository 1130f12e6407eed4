"""Whole numbers that stand for rows."""

from __future__ import annotations

from functools import partial
from itertools import count
from numbers import Integral

import numpy as np
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.collections.grouping import check_names
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.types import quote_name

_MOST_ATTEMPTS = 1_000


def identifiers(rows: Collection, name: str = "id", *, bits: int = 63) -> Collection:
    """Each distinct row with a whole number that no other row has at the same time, in a new column.

    The number is a hash of the row. Where several rows have one hash, the first of them in the order of their columns
    keeps it, and the others are hashed again with the number of the attempt, until each has a number of its own; a
    number that a row of an earlier attempt has is taken. So numbers are the same in every session and store, whatever
    the order in which rows came, and depend on the rows that are there alone. A row keeps its number while others come
    and go, unless one of them collides with it, of which the chance is about n / 2^bits.

    ``bits`` is the number of bits of the numbers, from 0 up to but not including 2^bits: fewer bits, more attempts.

    Shape:  the columns of ``rows`` and ``name`` (long): one row for each distinct row.
    Cost:   one exchange by row and one by number; two arrangements of the rows by their numbers, one of them in a loop
            that has a round for each attempt (hardly ever more than one).
    Law:    at every time each row has one number, and no two have the same; the numbers of the same rows are the same
            whatever was there before (tests/algorithms/test_identifiers.py).
    Source: ``identifiers`` of differential dataflow.

    Raises:
        SchemaError: there is a column ``name``.
        PlanError: ``bits`` is not a whole number from 1 to 63.
        NoFixpointError: (raised by ``advance``) there are more rows than numbers, or nearly so.

    >>> import altneu as an
    >>> pages = an.source("pages", "url string")
    >>> with an.Session() as session:
    ...     view = session.maintain("numbered", an.algorithms.identifiers(pages, bits=16))
    ...     session.insert("pages", [("/",), ("/docs",), ("/docs",)])
    ...     _ = session.advance()
    ...     before = dict(view.to_pylist())
    ...     session.insert("pages", [("/about",)])
    ...     _ = session.advance()
    ...     after = dict(view.to_pylist())
    ...     sorted(after), all(after[url] == number for url, number in before.items())
    (['/', '/about', '/docs'], True)
    """
    check_names([*rows.columns, name])
    if not isinstance(bits, Integral) or isinstance(bits, bool) or not 1 <= bits <= 63:
        raise PlanError(f"bits must be a whole number from 1 to 63, got {bits!r}")
    attempt = next(n for i in count() if (n := f"attempt{i or ''}") not in (*rows.columns, name))
    columns = [quote_name(column) for column in rows.columns]
    first = rows.distinct().select("*", **{attempt: "0L"})

    def further(claims: Collection) -> Collection:
        claimed = _hashed(claims, name, int(bits))
        lost = claimed.concat(_winners(claimed, name, attempt).negate())
        return lost.select(*columns, **{attempt: f"{attempt} + 1"}).concat(first)

    settled = _hashed(first.iterate(further, max_rounds=_MOST_ATTEMPTS), name, int(bits))
    return _winners(settled, name, attempt).select(*columns, quote_name(name))


def _winners(claimed: Collection, name: str, attempt: str) -> Collection:
    """For each number the row of the earliest attempt that hashes to it; ties are decided by the whole row."""
    return claimed.top_k(1, by=quote_name(attempt), per=name)


def _hashed(claims: Collection, name: str, bits: int) -> Collection:
    """The rows with what they and the attempt hash to."""
    schema = claims.schema.append(pa.field(name, pa.int64()))
    hashed = partial(_with_hash, name, bits)
    for attribute, value in (("__altneu_arrow__", True), ("__name__", "hash"), ("__qualname__", "hash")):
        setattr(hashed, attribute, value)
    return claims.map(hashed, schema, version=f"1:{bits}")


def _with_hash(name: str, bits: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    hashes = hash_rows(Rows.from_batch(batch)) & np.uint64(2**bits - 1)
    arrays = [*batch.columns, pa.array(hashes.astype(np.int64))]
    names = [*batch.schema.names, name]
    return pa.RecordBatch.from_arrays(arrays, names=names)
