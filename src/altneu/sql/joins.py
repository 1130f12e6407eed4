"""From a list of relations and conditions to a tree of joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from altneu.collections.joining import JoinKind, Keys, columns_of, having, of_right, padded, project, without
from altneu.errors import SchemaError
from altneu.expressions import Expr, cast, literal, parse
from altneu.expressions.collations import compared, text_of
from altneu.expressions.construct import collation_key
from altneu.plan import ir
from altneu.sql.scope import BYTES_OF, bound, columns_in, common_type, extended, filtered, fresh, renamed
from altneu.sql.selective import implied, left_by
from altneu.types import no_key, type_name

Link = tuple[exp.Expr, exp.Expr, bool]  # an expression of the left side, one of the right, and whether null is null


@dataclass(frozen=True)
class Part:
    """A plan with the names of its columns after the join: by that name, the column of the plan."""

    node: ir.Node
    names: Mapping[str, str]

    @classmethod
    def of(cls, node: ir.Node) -> Part:
        """A plan whose columns keep their names."""
        return cls(node, {n: n for n in node.schema.names})

    def has(self, tree: exp.Expr) -> bool:
        """Whether a condition reads columns of this part alone."""
        return columns_in(tree) <= self.names.keys()

    def expr(self, tree: exp.Expr) -> Expr:
        """A tree over the plan."""
        return parse(renamed(tree, self.names), self.node.schema)

    def where(self, conditions: Iterable[exp.Expr]) -> Part:
        """The rows on which conditions are true."""
        return Part(filtered(self.node, *(renamed(c, self.names) for c in conditions)), self.names)


def links(conditions: Iterable[exp.Expr], left: Part, right: Part) -> tuple[list[Link], list[exp.Expr]]:
    """The conditions that are equalities of one side with the other, and the rest."""
    equalities: list[Link] = []
    rest: list[exp.Expr] = []
    for condition in conditions:
        link = _link(condition, left, right)
        if link is None:
            rest.append(condition)
        else:
            equalities.append(link)
    return equalities, rest


def _link(condition: exp.Expr, left: Part, right: Part) -> Link | None:
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = condition.this, condition.expression
    safe = isinstance(condition, exp.NullSafeEQ)
    for one, other in ((a, b), (b, a)):
        if columns_in(one) and columns_in(other) and left.has(one) and right.has(other):
            return one, other, safe
    return None


def keyed(left: Part, right: Part, equalities: Sequence[Link]) -> tuple[Part, Part, Keys, list[exp.Expr]]:
    """Both sides with a column for each key, the keys, and the equalities that are left to be applied after the join.

    Without any equality it is a cross join, by a key that is the same in all rows.
    """
    if not equalities:
        ones = [fresh("^one", side.node.schema.names) for side in (left, right)]
        sides = [
            Part(extended(s.node, [(one, literal(1))]), s.names) for s, one in zip((left, right), ones, strict=True)
        ]
        return sides[0], sides[1], ((ones[0],), (ones[1],)), []
    more: tuple[dict[str, Expr], dict[str, Expr]] = ({}, {})
    keys: tuple[list[str], list[str]] = ([], [])
    late: list[exp.Expr] = []
    for a, b, safe in equalities:
        pair = _compared(left.expr(a), right.expr(b), safe)
        names = [_key_column(e, side.node.schema) for e, side in zip(pair, (left, right), strict=True)]
        if names[0] in keys[0] or names[1] in keys[1]:
            late.append((exp.NullSafeEQ if safe else exp.EQ)(this=a.copy(), expression=b.copy()))
            continue
        for side in (0, 1):
            keys[side].append(names[side])
            if not pair[side].is_column:
                more[side][names[side]] = pair[side]
    left, right = (
        Part(extended(side.node, new.items()), side.names) for side, new in zip((left, right), more, strict=True)
    )
    return left, right, (tuple(keys[0]), tuple(keys[1])), late


def _compared(a: Expr, b: Expr, safe: bool) -> tuple[Expr, Expr]:
    """Two expressions as they are compared: of one type, and wrapped where null is to equal null.

    Raises:
        SchemaError: they cannot be compared.
    """
    if any(e.is_column and e.column_name.startswith(BYTES_OF) for e in (a, b)):
        a, b = text_of(a), text_of(b)
    (a, b), collation, _ = compared("=", (a, b))
    if collation is not None:
        a, b = collation_key(a, collation), collation_key(b, collation)
    if what := no_key(a.type) or no_key(b.type):
        raise SchemaError(f"`{a.text}` = `{b.text}`: {what} cannot be compared; join on what you need of them")
    kind = common_type(
        (a.type, b.type), lambda: f"`{a.text}` is {type_name(a.type)} and `{b.text}` is {type_name(b.type)}"
    )
    a, b = cast(a, kind), cast(b, kind)
    return (_never_null(a), _never_null(b)) if safe and (a.nullable or b.nullable) else (a, b)


def _never_null(value: Expr) -> Expr:
    schema = pa.schema([pa.field("v", value.type, value.nullable)])
    return parse("named_struct('v', v)", schema).substitute({"v": value})


def _key_column(value: Expr, schema: pa.Schema) -> str:
    """The column of a key: an existing one, or one named by its text, so that equal keys are arranged once."""
    return value.column_name if value.is_column else fresh(f"^{value.sql}", schema.names)


def meet(left: Part, right: Part, conditions: Sequence[exp.Expr]) -> Part:
    """The inner join: pairs of rows for which the conditions are true."""
    equalities, rest = links(conditions, left, right)
    left, right, keys, late = keyed(left, right, equalities)
    node = ir.Join(left.node, right.node, *keys, _outputs(left, right))
    return Part.of(node).where([*late, *rest])


def _outputs(left: Part, right: Part) -> tuple[tuple[str, int, str], ...]:
    sides = ((0, left), (1, right))
    return tuple((name, side, column) for side, part in sides for name, column in part.names.items())


def outer(left: Part, right: Part, conditions: Sequence[exp.Expr], how: JoinKind) -> Part:
    """The outer join: the pairs of the inner join, and the rows without a partner of the sides that ``how`` keeps."""
    conditions, left, right = _on_one_side(conditions, left, right, how)
    met = meet(left, right, conditions)
    parts, outputs = [met.node], {(side, c): n for n, side, c in _outputs(left, right)}
    if how in ("left", "full"):
        alone = partners(left, right, conditions, keep=False)
        known = {n: c for (side, c), n in outputs.items() if side == 0}
        parts.append(padded(alone.node, met.node.schema, known))
    if how in ("right", "full"):
        alone = partners(right, left, conditions, keep=False)
        parts.append(padded(alone.node, met.node.schema, of_right(outputs, {})))
    return Part.of(ir.Concat(tuple(parts)))


def around_pairs(left: Part, right: Part, met: Part, read: Iterable[str], how: JoinKind) -> Part:
    """The outer join whose pairs are known, ``met``: they depend on the columns of both sides that are ``read``."""
    parts, names = [met.node], {*read}
    for side, kept in ((left, ("left", "full")), (right, ("right", "full"))):
        if how in kept:
            alone = in_pairs(side, met, names, keep=False)
            parts.append(padded(alone.node, met.node.schema, dict(side.names)))
    return Part.of(ir.Concat(tuple(parts)))


def in_pairs(side: Part, met: Part, read: Iterable[str], *, keep: bool) -> Part:
    """The rows of one side that are in a pair, or without ``keep`` those that are in none."""
    names = [n for n in side.names if n in {*read}]
    there = Part(met.node, {f"^met {n}": n for n in names})
    equal = [exp.NullSafeEQ(this=bound(n), expression=bound(f"^met {n}")) for n in names]
    return partners(side, there, equal, keep=keep)


def _on_one_side(
    conditions: Sequence[exp.Expr], left: Part, right: Part, how: JoinKind
) -> tuple[list[exp.Expr], Part, Part]:
    """Apply conditions on the padded side alone before the join."""
    mine = [c for c in conditions if columns_in(c) and how == "right" and left.has(c)]
    theirs = [c for c in conditions if columns_in(c) and how == "left" and right.has(c)]
    rest = [c for c in conditions if not any(c is moved for moved in (*mine, *theirs))]
    return rest, left.where(mine) if mine else left, right.where(theirs) if theirs else right


def partners(left: Part, right: Part, conditions: Sequence[exp.Expr], *, keep: bool) -> Part:
    """The left rows with a partner on the right (a semijoin), or without ``keep`` those with none (an antijoin)."""
    own = [c for c in conditions if columns_in(c) and right.has(c)]
    if own:
        right, conditions = right.where(own), [c for c in conditions if not any(c is condition for condition in own)]
    equalities, rest = links(conditions, left, right)
    there, here, keys, late = keyed(left, right, equalities)
    if late or rest:
        # A column of an equality is not null in the pairs; any other may be.
        plain = {a.name for a, _, safe in equalities if isinstance(a, exp.Column) and not safe}
        read = sorted({c for tree in (*conditions,) for c in columns_in(tree)} & {*left.names})
        met = meet(left, right, conditions)
        pairs = [(bound(n), bound(f"^met {n}"), n not in plain) for n in read]
        there, here, keys, _ = keyed(left, Part(met.node, {f"^met {n}": n for n in read}), pairs)
    chosen = (having if keep else without)(there.node, here.node, keys)
    return Part(_only(chosen, left), left.names)


def _only(node: ir.Node, like: Part) -> ir.Node:
    """Without the columns added for the key."""
    names = like.node.schema.names
    return node if node.schema.names == names else project(node, columns_of(node.schema, names))


def inner(parts: Sequence[Part], conditions: Sequence[exp.Expr]) -> tuple[Part, list[exp.Expr]]:
    """Parts joined in an order in which each has an equality with those before it, where there is one.

    Parts of which conditions select few rows come first, else those that are written first. Returns also the conditions
    that read other columns.
    """
    pending = list(conditions)
    left = [_Candidate.of(part, pending) for part in parts]
    pending = [c for c in pending if not (columns_in(c) and any(part.has(c) for part in parts))]
    left.sort(key=lambda candidate: candidate.rank > 0)
    while len(left) > 1:
        first = left.pop(0).part
        linked = [c for c in left if links(pending, first, c.part)[0]]
        if not linked and len(left) > 1 and _some_linked([c.part for c in left], pending):
            left.append(_Candidate(first, 0))  # equijoins come before cross joins
            continue
        chosen = min(linked, key=lambda candidate: candidate.rank) if linked else left[0]
        left = [c for c in left if c is not chosen]
        part = chosen.part
        now = [c for c in pending if Part(first.node, {**first.names, **part.names}).has(c) and columns_in(c)]
        pending = [c for c in pending if not any(c is n for n in now)]
        left.insert(0, _Candidate(meet(first, part, now), 0))
    return left[0].part, pending


@dataclass(frozen=True)
class _Candidate:
    """A part to be joined; the rank is lower where conditions select fewer of its rows."""

    part: Part
    rank: int

    @classmethod
    def of(cls, part: Part, conditions: Iterable[exp.Expr]) -> _Candidate:
        """A part with the conditions on it alone applied."""
        own = [c for c in conditions if columns_in(c) and part.has(c)]
        also = [part_of_or for c in conditions if (part_of_or := implied(c, part.has)) is not None and not part.has(c)]
        return cls(part.where([*own, *also]) if own or also else part, left_by([*own, *also]))


def _some_linked(parts: Sequence[Part], conditions: Sequence[exp.Expr]) -> bool:
    return any(links(conditions, a, b)[0] for i, a in enumerate(parts) for b in parts[i + 1 :])
