"""Runners whose views are computed anew in every step, where anything of them can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from altneu import Session, View
from altneu.errors import PlanError
from tests.oracle.runners import Runner, Sources


class Fully:
    """``maintain`` of a session with ``refresh="full"``; ``recomputed`` counts its views that may be computed anew."""

    def __init__(self) -> None:
        self.recomputed: set[str] = set()
        self.refused: dict[str, str] = {}

    def maintain(self, session: Session) -> Callable[..., View]:
        maintain = session.maintain

        def fully(name: str, collection: Any, **options: Any) -> View:
            try:
                view = maintain(name, collection, refresh="full", **options)
            except PlanError as error:
                if "cannot be refreshed in full" not in str(error):
                    raise
                self.refused[name] = str(error)
                return maintain(name, collection, **options)
            self.recomputed.add(name)
            return view

        return fully

    def runner(self, runner: Runner, sources: Sources | None = None) -> Runner:
        """A runner with such sessions, which also have all rows of some sources."""

        def open_session(folder: Path | None) -> Session:
            session = runner.open_session(folder)
            for name, source in (sources or {}).items():
                session.maintain(f"all of {name}", source)
            session.maintain = self.maintain(session)  # type: ignore[method-assign]
            return session

        return replace(runner, open_session=open_session)
