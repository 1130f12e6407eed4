"""Linear logic without a collection: ``an.logic.filter("v > 0").followed_by(an.logic.delay(by=3))``.

Every verb here is the collection's verb of the same name and gives a ``Logic``: a value that composes, and acts on any
collection by ``collection.join_function(logic)``.

>>> import altneu as an
>>> week = an.logic.temporal("at", "at + 7 * 24 * 3600")
>>> recent = an.source("events", "at long, what string").join_function(
...     week.followed_by(an.logic.select("what"))
... )
>>> recent.columns
['what']
"""

from __future__ import annotations

from altneu.collections.verbs import Logic

identity = Logic()

delay = identity.delay
explode = identity.explode
filter = identity.filter  # noqa: A001 -- the verb's name
flat_map = identity.flat_map
generate_series = identity.generate_series
join_function = identity.join_function
json = identity.json
map = identity.map  # noqa: A001 -- the verb's name
negate = identity.negate
repeat_row = identity.repeat_row
repeat_row_non_negative = identity.repeat_row_non_negative
select = identity.select
temporal = identity.temporal
unnest = identity.unnest

__all__ = [
    "Logic",
    "delay",
    "explode",
    "filter",
    "flat_map",
    "generate_series",
    "identity",
    "join_function",
    "json",
    "map",
    "negate",
    "repeat_row",
    "repeat_row_non_negative",
    "select",
    "temporal",
    "unnest",
]
