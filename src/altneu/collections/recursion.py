"""Collections that are defined by each other, in rounds, or by what they were at earlier times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.collections.grouping import user_schema
from altneu.collections.loops import MAX_ROUNDS, OnLimit, bodies_over, level_of_loop, loop, steps_of
from altneu.errors import PlanError
from altneu.plan import ir


def recursive(
    body: Callable[..., Collection | Sequence[Collection]],
    *,
    max_rounds: int = MAX_ROUNDS,
    on_limit: OnLimit = "error",
    step: int | Mapping[str, int] = 1,
    **initial: Collection,
) -> tuple[Collection, ...]:
    """The fixpoint of several collections that are defined by each other.

    ``initial`` names the variables and their first values. ``body`` takes the variables in that order and returns the
    next value of each, or of one variable the collection alone; all are replaced together, so a round reads only values
    of the round before. Returns the fixpoints in the same order. ``max_rounds`` and ``on_limit`` are as in
    ``Collection.iterate``.

    With a ``step`` of several rounds, for all variables or by name, a variable is in each round what its body made so
    many rounds before, and its first value until then.

    Law:    the interpreter of rounds gives the same (tests/oracle/test_loops.py).
    Source: ``Variable`` of differential dataflow, whose step this is.

    Raises:
        PlanError: a step is not a whole number of rounds of at least 1, or names no variable.
        SchemaError: the body returns other columns for a variable than its first value has.

    >>> import altneu as an
    >>> roots, edges = an.source("roots", "node long"), an.source("edges", "src long, dst long")
    >>> def step(even, odd):
    ...     def next_to(c):
    ...         return c.join(edges, on={"node": "src"}).select(node="dst")
    ...
    ...     return next_to(odd).concat(roots).distinct(), next_to(even).distinct()
    >>> even, odd = an.recursive(step, even=roots, odd=roots.filter("false"))
    >>> with an.Session() as session:
    ...     view = session.maintain("odd", odd)
    ...     session.insert("roots", [(1,)])
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 4)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(2,), (4,)]
    """
    return loop(Collection, body, initial, max_rounds, on_limit, step)


def feedback(
    body: Callable[..., Collection | Sequence[Collection]],
    *,
    by: int | Mapping[str, int] = 1,
    **variables: str | pa.Schema,
) -> tuple[Collection, ...]:
    """Collections that are defined by what they were before: a variable is at each time what it was ``by`` ticks ago.

    ``variables`` names them and says their columns. ``body`` takes the variables in that order, each as it was ``by``
    ticks before, and returns what each is now, or of one variable the collection alone; so the result at time ``t`` is
    ``body`` of the result at ``t - by`` and of all other collections at ``t``. In the first ``by`` ticks the variables
    are empty. ``by`` may differ between variables: a mapping by name.

    It is the result at every tick, also of an advance that closes many: where something changes, or comes back, a step
    of its own closes the time, and times at which nothing does are passed over in one. A result that changes at every
    tick for ever costs a step for every ``by`` ticks; one that settles costs nothing from then on (docs/loops.md).

    Shape:  the columns that ``variables`` says, all nullable.
    Units:  ticks of the session's time.
    Cost:   a change of the result is a change of the variable ``by`` ticks later; the result is arranged, and changes
            that are to come back wait. An advance is a commit for each step.
    Law:    the result at each time is the body of the result before (tests/oracle/test_feedback.py).
    Source: ``Variable`` of differential dataflow, with a step of the outer time.

    Raises:
        SchemaError: the body returns other columns for a variable than are declared.
        PlanError: it is used in the body of a loop; or the body returns something else than collections, or applies a
            verb that depends on arrival to a variable; or ``by`` is not a whole number of at least 1.

    >>> import altneu as an
    >>> enabled, disabled = an.source("enabled", "device string"), an.source("disabled", "device string")
    >>> def since(before):
    ...     return before.concat(enabled).distinct().antijoin(disabled, on="device")
    >>> (on,) = an.feedback(since, on="device string")
    >>> with an.Session() as session:
    ...     view = session.maintain("on", on)
    ...     for source, device, time in [
    ...         ("enabled", "lamp", 0),
    ...         ("enabled", "fan", 2),
    ...         ("disabled", "lamp", 7),
    ...     ]:
    ...         session.insert(source, [(device,)], time=time)
    ...         session.retract(
    ...             source, [(device,)], time=time + 1
    ...         )  # an event: it is there at this time only
    ...     for now in (2, 6, 20):
    ...         _ = session.advance(to=now)
    ...         print(sorted(view.to_pylist()))
    [('lamp',)]
    [('fan',), ('lamp',)]
    [('fan',)]
    """
    if not variables:
        raise PlanError('feedback needs at least one variable: feedback(body, name="its columns")')
    if level_of_loop() >= 0:
        raise PlanError(
            "feedback goes from one time of the session to another, and in the body of a loop or of feedback times are "
            "others: define it outside, and read its result there; several variables may be defined by each other"
        )
    steps = steps_of(by, variables, "by must be a whole number of ticks of at least 1 for each variable")
    names, level = tuple(variables), 0
    schemas = tuple(ir.open_schema(user_schema(schema)) for schema in variables.values())
    inside = [ir.Variable(level, i, schema) for i, schema in enumerate(schemas)]
    bodies = bodies_over(Collection, names, inside, body, "feedback")
    whole = ir.Recurrence(names, schemas, tuple(c.node for c in bodies), level, steps)
    return tuple(Collection(ir.Recurred(whole, i)) for i in range(len(names)))
