"""Rewriting of logical plans: rules, one a file, applied in the order of ``RULES``.

Rules are of two kinds. Some are right for every operator, and use facts of nodes (``altneu.operators.node``): columns
that are not needed, tests on their way down, empty collections, identities. The others are about one pattern of named
operators, and match on their classes: linear logic above linear logic, distincts below a distinct, joins of joins,
first rows of a window, loops. A new operator states its facts, and the patterns need not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from altneu.expressions.names import UPDATE_TIME
from altneu.plan.ir import Constant, Node, Source, UpdateTime, walk
from altneu.plan.rewrite.bound_lists import bound_lists
from altneu.plan.rewrite.bound_ranks import bound_ranks
from altneu.plan.rewrite.choices import Choices
from altneu.plan.rewrite.count_tuples import count_tuples
from altneu.plan.rewrite.delta_joins import Exists, Joins, chosen_joins, delta_joins, open_joins
from altneu.plan.rewrite.drop_identities import drop_identities
from altneu.plan.rewrite.fold_constants import fold_constants
from altneu.plan.rewrite.hoist_bindings import hoist_bindings
from altneu.plan.rewrite.join_aggregates import join_aggregates
from altneu.plan.rewrite.keep_best import keep_best
from altneu.plan.rewrite.limit_windows import limit_windows
from altneu.plan.rewrite.merge_distinct import merge_distinct
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.order_groups import order_groups
from altneu.plan.rewrite.pick_rows import pick_rows
from altneu.plan.rewrite.prune_columns import prune_columns
from altneu.plan.rewrite.push_bounds import push_bounds
from altneu.plan.rewrite.push_filters import push_filters
from altneu.plan.rewrite.share_orders import share_orders, with_orders
from altneu.plan.rewrite.sizes import Sizes, SourceSizes
from altneu.plan.rewrite.split_windows import split_windows
from altneu.plan.rewrite.transform import replaced
from altneu.plan.rewrite.use_indexes import use_indexes, without_indexes

__all__ = [
    "NEWER",
    "RULES",
    "Choices",
    "Exists",
    "Joins",
    "Rule",
    "Sizes",
    "SourceSizes",
    "chosen_joins",
    "delta_joins",
    "open_joins",
    "optimise",
    "share_orders",
    "with_orders",
    "without_indexes",
]

Rule = Callable[[Node], Node]

RULES: tuple[Rule, ...] = (
    hoist_bindings,
    merge_linear,
    fold_constants,
    drop_identities,
    merge_distinct,
    count_tuples,
    pick_rows,
    push_filters,
    push_bounds,
    limit_windows,
    bound_ranks,
    use_indexes,
    prune_columns,
    bound_lists,
    join_aggregates,
    split_windows,
    order_groups,
    keep_best,
)
_OF_GROUPS = (pick_rows, split_windows, join_aggregates, order_groups, bound_lists, bound_ranks, count_tuples)
NEWER: tuple[tuple[Rule, ...], ...] = (
    (pick_rows,),
    (pick_rows, split_windows),
    (pick_rows, split_windows, join_aggregates),
    _OF_GROUPS,
    (*_OF_GROUPS, hoist_bindings, merge_distinct),
)
"""Rules that came after a release, the latest first: views of older stores were computed without them, and have the
plans of then."""


def optimise(node: Node, without: Collection[Rule] = ()) -> Node:
    """Apply the rules in order, but for those to be left out, until nothing changes.

    What is below an ``update_time()`` is rewritten by itself, and what is above does not see it: another view that is
    written over the same collection then reads the same times. So a filter stays above it.

    Cost:   once a plan: the result is stored with it, as a view is looked for more than once while it is added,
            and again when a store is opened.
    Law:    the plans before and after give the same updates (tests/golden/test_rewrite.py).
    """
    rules = tuple(rule for rule in RULES if rule not in without)
    optimised: dict[tuple[Rule, ...], Node] = node.__dict__.setdefault("#optimised", {})
    if rules not in optimised:
        optimised[rules] = _rewritten(node, rules)
    return optimised[rules]


def _rewritten(node: Node, rules: tuple[Rule, ...]) -> Node:
    timed = [below for below in walk(node) if isinstance(below, UpdateTime)]
    if not timed:
        return _settled(node, rules)
    stands: dict[str, Node] = {}  # by the fingerprint of what it stands for, as that was written
    means: dict[str, Node] = {}  # by that of the stand-in
    for update_time in timed:
        below = _settled(replaced(update_time.input, stands), rules)
        if isinstance(below, Constant) and not below.rows:
            stands[update_time.fingerprint] = Constant((), update_time.schema)
            continue
        rewritten = UpdateTime(replaced(below, means))
        stand = stands[update_time.fingerprint] = Source(f"{UPDATE_TIME} {rewritten.fingerprint}", rewritten.schema)
        means[stand.fingerprint] = rewritten
    return replaced(_settled(replaced(node, stands), rules), means)


def _settled(node: Node, rules: tuple[Rule, ...]) -> Node:
    while True:
        rewritten = node
        for rule in rules:
            rewritten = rule(rewritten)
        if rewritten.fingerprint == node.fingerprint:
            return rewritten
        node = rewritten
