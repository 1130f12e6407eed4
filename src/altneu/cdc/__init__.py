"""Change data capture: collections from the change events of databases and other systems (docs/cdc.md).

* ``debezium``: a ``Logic`` that reads rows from Debezium's envelopes, which have a row before and after its change.
* ``maxwell``, ``canal``, ``ogg``, ``mongodb``: the same for the envelopes of other tools.
* ``upsert``, ``debezium_upsert`` and ``mongodb_upsert``: streams that give the new row of a key, or delete it.
* ``updates``: a ``Logic`` for rows that are updates ``(data, time, diff)`` themselves.
* ``Feed`` and ``advance``: such updates as messages in any order, possibly repeated, with progress messages.

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
