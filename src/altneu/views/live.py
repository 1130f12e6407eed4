"""A view in a cell of a notebook, shown anew after every step."""

from __future__ import annotations

from collections.abc import Callable

from altneu.engine.subscription import Subscription
from altneu.errors import ReadError
from altneu.errors.extras import require
from altneu.runtime.inputs import whole_number
from altneu.views.contents import Contents


class _Shown:
    """A view as it was when it was shown."""

    def __init__(self, view: Contents, rows: int) -> None:
        self._text, self._html = repr(view), view._html(rows)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def live(view: Contents, subscribe: Callable[..., Subscription], rows: int) -> Subscription:
    """Implements ``View.live``; ``subscribe`` is the view's."""
    require("notebook", "view.live()")
    from IPython import get_ipython
    from IPython.display import display

    if whole_number(rows, "rows") < 1:
        raise ReadError(f"rows must be a positive number, got {rows}")
    if get_ipython() is None:
        raise ReadError(
            "view.live() must be called in a cell of a notebook or in IPython; elsewhere view.subscribe(...) calls a "
            "function after every step"
        )
    handle = display(_Shown(view, rows), display_id=True)  # type: ignore[no-untyped-call]
    return subscribe(on_time_end=lambda _: handle.update(_Shown(view, rows)), snapshot=False)
