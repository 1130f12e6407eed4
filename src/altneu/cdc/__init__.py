"""Change data capture: what databases and other systems tell of their changes becomes collections (docs/cdc.md).

* ``debezium``: a ``Logic`` that makes rows of Debezium's envelopes, which say what a row was and what it is.
* ``maxwell``, ``canal``, ``ogg``, ``mongodb``: the same of other tools' envelopes.
* ``upsert``, ``debezium_upsert`` and ``mongodb_upsert``: streams that say what the row of a key is from now on, or that
  it is gone.
* ``updates``: a ``Logic`` for rows that are updates ``(data, time, diff)`` themselves.
* ``Feed`` and ``advance``: such updates as messages that may come twice and in any order, with messages of progress.

Documents are read as far as the view that is maintained asks: a member that nobody reads is not parsed.

>>> import altneu as an
>>> people = an.source("people", "value string").join_function(an.cdc.debezium("id long, name string"))
>>> with an.Session() as session:
...     view = session.maintain("people", people)
...     session.insert("people", ['{"op": "c", "before": null, "after": {"id": 1, "name": "Ada"}}'])
...     session.insert("people", ['{"op": "d", "before": {"id": 2, "name": "Bob"}, "after": null}'])
...     session.insert("people", ['{"op": "r", "before": null, "after": {"id": 2, "name": "Bob"}}'])
...     _ = session.advance()
...     view.to_pylist()
[(1, 'Ada')]
"""

from __future__ import annotations

from altneu.cdc.envelopes import canal, maxwell, mongodb, ogg
from altneu.cdc.feed import Feed, advance
from altneu.cdc.keyed import debezium_upsert, mongodb_upsert, upsert
from altneu.cdc.logic import debezium, updates

__all__ = [
    "Feed",
    "advance",
    "canal",
    "debezium",
    "debezium_upsert",
    "maxwell",
    "mongodb",
    "mongodb_upsert",
    "ogg",
    "updates",
    "upsert",
]
