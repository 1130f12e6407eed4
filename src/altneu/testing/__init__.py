"""A test kit for pipelines: tables as text, assertions about views, random histories of updates for property tests.

``table`` and ``to_text`` read and write tables, updates with their ``time`` and ``diff`` among them; ``assert_changes``
and ``assert_contents`` compare a view with such a table, ``assert_same_as_spark`` with Spark's own query over the same
rows; ``histories`` is a Hypothesis strategy, ``replay`` plays a history in steps, and ``assert_incremental`` compares
every time with a computation from scratch (docs/testing.md). ``assert_weight_laws`` tests a weight of your own,
``assert_time_laws`` times of your own.
"""

from altneu.testing.against_spark import assert_same_as_spark
from altneu.testing.asserting import assert_changes, assert_contents
from altneu.testing.replaying import History, assert_incremental, cuts, histories, replay
from altneu.testing.tables import table, to_text
from altneu.testing.timing import assert_time_laws
from altneu.testing.weighing import assert_weight_laws

__all__ = [
    "History",
    "assert_changes",
    "assert_contents",
    "assert_incremental",
    "assert_same_as_spark",
    "assert_time_laws",
    "assert_weight_laws",
    "cuts",
    "histories",
    "replay",
    "table",
    "to_text",
]
