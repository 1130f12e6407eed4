"""CREATE OR REPLACE: a view gets another query, and what reads it is defined anew with it, in one commit."""

from __future__ import annotations

from dataclasses import replace

from altneu.collections.collection import Collection
from altneu.engine.engine import Engine
from altneu.engine.redefine import alike, redefine
from altneu.errors import AltneuError, StatementError
from altneu.plan.rewrite import Joins
from altneu.sql.statements.binder import DefinitionBinder
from altneu.sql.statements.defined import TEMPORARY, Defined, Definitions
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.starting import Starter, in_lower_case
from altneu.sql.statements.tree import CreateView


class Replacer:
    """Gives views other queries; the views go on with their rows where these have the same columns."""

    def __init__(
        self, engine: Engine, known: Definitions, binder: DefinitionBinder, starter: Starter, feeds: Feeds
    ) -> None:
        self._engine, self._known, self._binder, self._starter, self._feeds = engine, known, binder, starter, feeds

    def replace(self, old: Defined, new: Defined) -> None:
        """Replace a view, which stays if the new one cannot be computed; what reads it is defined anew with it.

        Materialized views go on with their rows, and the differences are changes at the next time. One that has other
        columns than before is another view: nothing may read it then.

        Raises:
            StatementError: it would read itself, or it has other columns and is read.
        """
        if new.kind == "FUNCTION":
            self._known.refuse_dependants(old, "is replaced")
            self._starter.put(new)
            return
        collection = self._binder.view(new)
        around = {old.name.lower(), *(d.name.lower() for d in self._known.with_dependants(old))} & {*new.depends}
        if around:
            raise StatementError(f"{new.kind} {new.name} would read itself, by {', '.join(sorted(around))}")
        if not new.is_stored:
            self._replace_temporary(old, new)
            return
        assert old.collection is not None
        goes_on = old.error is None and alike(old.collection.schema, collection.schema) and self._goes_on(old, new)
        if not goes_on:
            self._known.refuse_dependants(old, "is replaced by one with other columns or options,")
            self._replace_anew(old, new, collection)
            return
        new.view = old.view
        again = [new, *(d for d in reversed(self._known.with_dependants(old)) if d is not old)]
        self._redefine(old, new, again)

    def _replace_temporary(self, old: Defined, new: Defined) -> None:
        """Replace a view of this session alone, and bind those that read it anew."""
        known, order = dict(self._known.all), self._known.next_order
        try:
            for place, defined in enumerate(
                [new, *(d for d in reversed(self._known.with_dependants(old)) if d is not old)]
            ):
                one = replace(defined, order=order + place, collection=None)
                one.collection = self._binder.view(one)
                self._known.all[one.name.lower()] = one
        except BaseException:
            self._known.all = known
            raise
        self._known.version += 1

    def _replace_anew(self, old: Defined, new: Defined, collection: Collection) -> None:
        """Maintain another view in the place of one."""
        if new.kind == "VIEW":
            self._starter.put(new)
            return
        while_new = f"{TEMPORARY}{new.name}"
        self._starter.maintain(while_new, collection, new.stated(CreateView))
        self._engine.drop(old.view or old.name)
        self._starter.put(new)
        self._engine.drop(while_new)

    def _goes_on(self, old: Defined, new: Defined) -> bool:
        """Whether what a view keeps can be brought up to date."""
        before, now = old.stated(CreateView), new.stated(CreateView)
        if not before.materialized:
            return True
        contents = before.options.get("CONTENTS", True) and now.options.get("CONTENTS", True)
        return bool(contents) and not now.options.get("STRICT", False)

    def _redefine(self, old: Defined, new: Defined, again: list[Defined]) -> None:
        """Bind definitions anew, the first one instead of another, and maintain what they say now."""
        engine, known = self._engine, dict(self._known.all)
        order, bound = self._known.next_order, list[Defined]()
        try:
            for place, defined in enumerate(again):
                one = replace(defined, order=order + place, collection=None)
                self._bind_again(one)
                self._known.all[one.name.lower()] = one
                bound.append(one)
            views = {d.name: d.collection for d in bound if d.kind == "MATERIALIZED VIEW" and d.collection is not None}
            options = new.stated(CreateView).options
            with engine.defining({d.name.lower(): d.to_json() for d in bound if d.is_stored}):
                redefine(engine, views, str(options.get("JOINS", "auto")).lower())  # type: ignore[arg-type]
        except BaseException:
            if engine.definitions[old.name.lower()]["order"] == old.order:
                self._known.all = known
            raise
        self._known.version += 1
        for index in [d for d in bound if d.kind == "INDEX"]:
            self._starter.index_again(index)
        if new.kind == "MATERIALIZED VIEW" and (retain := options.get("RETAIN")) is not None:
            engine.retain_view(new.name, "all" if isinstance(retain, str) else retain)
        if new.kind == "MATERIALIZED VIEW" and (refresh := options.get("REFRESH")) is not None:
            engine.refresh_view(new.name, in_lower_case(refresh))
        self._feeds.insert()

    def redefine(self, name: str, collection: Collection, joins: Joins) -> None:
        """Give a view of the program another query; what statements define over it is defined anew with it.

        So are definitions of the store that the program has not restored, because they read this view.

        Raises:
            as ``redefine`` of the engine, and StatementError: a statement created it, or what reads it would have other
                columns.
        """
        engine = self._engine
        if (created := self._known.get_defined(name)) is not None:
            raise StatementError(
                f"{name!r} is a {created.kind} that a statement created; CREATE OR REPLACE {created.kind} gives it "
                "another query, or give this one another name"
            )
        known, order = dict(self._known.all), self._known.next_order
        above, bound = {name.lower()}, list[Defined]()
        self._known.replacing[name] = collection
        try:
            for defined in sorted(known.values(), key=lambda d: d.order):
                if defined.error is None and above.isdisjoint(defined.depends):
                    continue
                one = replace(defined, order=order + len(bound), collection=None, error=None)
                try:
                    (self._bind_again if defined.error is None else self._binder.bind)(one)
                except AltneuError:
                    if defined.error is None:
                        raise
                    continue  # what could not be restored for another reason says it
                if above.isdisjoint(one.depends) or one.kind == "SINK":
                    continue  # a sink follows its view, by what that is called
                one.view = one.name if one.kind in ("MATERIALIZED VIEW", "INDEX") else None
                self._known.all[one.name.lower()] = one
                above.add(one.name.lower())
                bound.append(one)
            views = {d.name: d.collection for d in bound if d.kind == "MATERIALIZED VIEW" and d.collection is not None}
            with engine.defining({d.name.lower(): d.to_json() for d in bound if d.is_stored}):
                redefine(engine, {name: collection, **views}, joins)
        except BaseException:
            if not any(engine.definitions[d.name.lower()]["order"] == d.order for d in bound if d.is_stored):
                self._known.all = known
            raise
        finally:
            del self._known.replacing[name]
        self._known.version += 1
        for index in [d for d in bound if d.kind == "INDEX"]:
            self._starter.index_again(index)

    def _bind_again(self, defined: Defined) -> None:
        """Bind a definition anew over what its names mean now; an index or a sink is of the same view as before."""
        if defined.kind in ("VIEW", "MATERIALIZED VIEW"):
            before = defined.collection
            defined.collection = self._binder.view(defined)
            columns = self._known.all[defined.name.lower()].collection
            if columns is not None and not alike(columns.schema, defined.collection.schema):
                raise StatementError(
                    f"{defined.kind} {defined.name}, which reads it, would have other columns; DROP it first"
                )
            assert before is None
