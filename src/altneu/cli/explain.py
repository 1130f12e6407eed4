"""``altneu explain``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import click

from altneu.cli.command import Taught, nearest, path_option, reporting
from altneu.cli.opening import open_session, store_folder
from altneu.cli.output import Output
from altneu.cli.planning import Beside, define, planned
from altneu.cli.written import write_text
from altneu.errors import PlanError
from altneu.explain import FORMS, Form, rendered
from altneu.session import Session, session_over
from altneu.types import quote_name

_SUFFIXES: dict[str, str] = {".txt": "text", **{f".{form}": form for form in FORMS if form != "text"}}


@click.command(
    cls=Taught,
    short_help="Show the cost of views or of a query.",
    examples=[
        ("the cost of a view in a store", "altneu explain --path state totals"),
        (
            "the cost of a query, given the state of the store, as a picture",
            'altneu explain --path state --out plan.svg "SELECT o.item FROM orders o JOIN totals t ON o.item = t.item"',
        ),
        (
            "the cost of the definitions in a file, before it is run (-: the standard input)",
            """\
echo "
  CREATE TABLE clicks (page STRING, at BIGINT);
  CREATE MATERIALIZED VIEW visits AS SELECT page, count(*) AS n FROM clicks GROUP BY page;
" | altneu explain - visits""",
        ),
    ],
    shape="one object: views, and operators with their keys, exchanges, state and cost, as EXPLAIN AS JSON gives it",
)
@click.argument("words", nargs=-1, metavar="[FILE.sql] [NAME|QUERY]")
@path_option(required=False)
@click.option("--analyze", is_flag=True, help="Run the whole FILE.sql, in memory, and show what each operator did.")
@click.option("--form", "given", type=click.Choice(FORMS), help="Form of the output (default: that of --out, or text).")
@click.option("--out", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write a file.")
@click.option(
    "--master", help='With FILE.sql: plan for Spark, such as "local[*]"; required for its tables and streams.'
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as for altneu run.")
@reporting
def explain(
    out: Output,
    words: tuple[str, ...],
    path: str | None,
    given: str | None,
    file: Path | None,
    master: str | None,
    settings: tuple[str, ...],
    *,
    analyze: bool,
) -> None:
    """Show the cost of views or of a query: operators, keys, exchanges, stored state, and what bounds a step.

    Explains the views of a store (--path), even while another process writes it, or the definitions in FILE.sql, which
    are not run and read no rows. NAME is a view, QUERY a SELECT over views; without either, all views are explained.
    """
    form = _form(given, file, as_json=out.as_json)
    if path is not None:
        if len(words) > 1 or analyze or master or settings:
            raise click.UsageError(
                "with --path, give at most one NAME or QUERY, and leave out --analyze, --master and --set"
            )
        with out.busy("planning"), session_over(Beside(store_folder(path))) as session:
            plan = explained(session, words[0] if words else None, form)
    elif len(words) in (1, 2):
        with out.busy("running" if analyze else "planning"):
            plan = _of_file(_text(words[0]), words[1:], form, (master, settings), analyze=analyze)
    else:
        raise click.UsageError("name a store with --path, or a FILE.sql, and perhaps a view or a query")
    if file is not None:
        write_text(plan + "\n", file)
        out.note(f"written to {file}")
    elif out.as_json:
        out.json(json.loads(plan))
    else:
        for line in plan.split("\n"):
            out.line(line)


def _of_file(
    text: str, what: tuple[str, ...], form: Form, opened: tuple[str | None, tuple[str, ...]], *, analyze: bool
) -> str:
    """What the definitions of a text cost, or with ``analyze`` did."""
    master, settings = opened
    with open_session(None, master, settings) if analyze or master or settings else planned() as session:
        if analyze:
            statements = session.statements
            for _ in statements.results(text):
                """What it gives is for altneu run to show."""
            statements.settle()
        else:
            define(session, text)
        return explained(session, what[0] if what else None, form, analyze=analyze)


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    if not Path(file).is_file():
        raise click.UsageError(f"there is no file {file}; name a FILE.sql, or a store with --path")
    return Path(file).read_text(encoding="utf-8")


def _form(form: str | None, file: Path | None, *, as_json: bool) -> Form:
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --form {form} exclude each other; leave one out")
    by_name = _SUFFIXES.get(file.suffix.lower()) if file is not None else None
    return cast("Form", form or ("json" if as_json else by_name or "text"))


_OF_PROGRAMS = (
    "only the Python program that defined it knows its plan: call session.explain(name) there, "
    "or open the page of session.serve(); "
    "altneu status --verbose shows the state stored for it"
)


def explained(session: Session, what: str | None, form: Form, *, analyze: bool = False) -> str:
    """What EXPLAIN tells of a view by name, of a query, or of all views.

    Raises:
        PlanError: there is no such name, or nothing tells its plan.
    """
    session.statements.run("")  # what a store knows is taken up
    unknown = [name for name in session.views_stored if name not in session.views]
    if what is None and unknown and not session.views:
        raise PlanError(f"{', '.join(unknown)}: {_OF_PROGRAMS}")
    if what is None:
        return rendered(session.explained(), form, analyze=analyze)
    known = session.statements.known
    names = {name.lower(): name for name in [*session.views_stored, *session.views, *known]}
    name = names.get(what.strip().lower())
    if name is None and len(what.split()) == 1:
        raise PlanError(f"no view {what!r}{nearest(what, names.values())}")
    if name is not None and name not in session.views and name not in known:
        raise PlanError(f"view {name!r}: {_OF_PROGRAMS}")
    target = what if name is None else f"VIEW {quote_name(name)}"
    words = f"EXPLAIN {'ANALYZE ' if analyze else ''}AS {form.upper()} {target}"
    return "\n".join(line for (line,) in session.sql(words).to_pylist())
