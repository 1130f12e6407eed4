"""``altneu run pipeline.sql``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from altneu.cli.command import INTERRUPTED, Taught, stopped_cleanly
from altneu.cli.opening import open_session
from altneu.cli.output import Output
from altneu.errors import AltneuError, StatementError
from altneu.session import Session
from altneu.sql.statements import Result, Subscribed, parse
from altneu.sql.statements.tree import FOLLOWED, Follow
from altneu.streams import Following

LOOKS_EVERY = 0.2  # seconds between two looks at streams that are followed


@click.command(
    cls=Taught,
    examples=[
        (
            "create a store, or continue with an existing one",
            """\
echo "
  CREATE TABLE orders (item STRING, price INT);
  CREATE MATERIALIZED VIEW totals AS
    SELECT item, sum(price) AS total FROM orders GROUP BY item;
" | altneu run - --path state""",
        ),
        (
            "change rows, and print the changes of a view",
            """\
echo "
  SUBSCRIBE totals WITH (SNAPSHOT = false);
  INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4);
" | altneu run - --path state --set retain=all""",
        ),
        ("answer a query, without a store", """echo "VALUES (1, 'tea'), (2, 'jam')" | altneu run - --json"""),
    ],
    exits={1: "a statement failed; those before it stay in effect", 130: "stopped by Ctrl-C; committed steps stay"},
    shape='for each statement {"statement", "message"} or, for a query, {"statement", "columns", "rows"}; for each '
    'change of a subscription {"statement", "change": {…}}; if a statement fails, at the end {"error", "message", '
    '"notes"}',
)
@click.argument("pipeline", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--path", help="Folder or address of the store; without it nothing is stored.")
@click.option("--master", help='Run on Spark, such as "local[*]"; without it everything runs in this process.')
@click.option(
    "--follow/--once",
    "follows",
    default=False,
    help="Follow streams until stopped (Ctrl-C), or process the available rows and end (the default).",
)
@click.option("--serve", "serves", is_flag=True, help="Show the live page in the browser, until Ctrl-C (altneu serve).")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting: retain=all, spark.ui.port=0 …")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
def run(
    pipeline: str,
    path: str | None,
    master: str | None,
    settings: tuple[str, ...],
    *,
    follows: bool,
    serves: bool,
    as_json: bool,
) -> None:
    """Run the statements of a file ("-": of the standard input).

    Definitions that the store has already are reused; sources are read once, and streams continue from their position.
    The results of SELECT, SHOW, EXPLAIN and SUBSCRIBE are printed. Ctrl-C stops the run; committed steps stay.
    """
    out = Output(as_json=as_json)
    with stopped_cleanly():
        try:
            text = _text_of(pipeline)
            parse(text)
            with out.busy("opening"):
                session = open_session(path, master, settings)
            with session:
                page = session.serve() if serves else None
                if page is not None:
                    out.address(page.url, path)
                Pipeline(session, out).run(text, follows=follows)
                if page is not None:
                    page.wait()
        except AltneuError as error:
            out.failed(error)
            sys.exit(1)
        except KeyboardInterrupt:
            out.said("", "stopped; what was committed stays")
            if not (follows or serves):  # which end in no other way
                sys.exit(INTERRUPTED)


def _text_of(pipeline: str) -> str:
    """The statements of a file, or of the standard input."""
    try:
        raw = sys.stdin.buffer.read() if pipeline == "-" else Path(pipeline).read_bytes()
        return raw.decode()
    except UnicodeDecodeError as error:
        name = "the standard input" if pipeline == "-" else pipeline
        raise StatementError(f"{name} is not UTF-8 text, at byte {error.start}: is it a file of statements?") from None


class Pipeline:
    """The statements of a file as they are run, and what of them goes on."""

    def __init__(self, session: Session, out: Output) -> None:
        self._session, self._out = session, out
        self._statements = session.statements
        self._subscribed: list[tuple[str, Subscribed]] = []

    def run(self, text: str, *, follows: bool) -> None:
        """Do all statements, then what streams there are."""
        results = self._statements.results(text)
        while True:
            with self._out.busy("running"):  # and not while something is printed
                done = next(results, None)
            if done is None:
                break
            self._show(done[0].text, done[1])
            self._print_changes()
        if self._statements.rolled_back():
            raise StatementError(
                "the script ends after BEGIN without COMMIT, so its transaction is rolled back; add COMMIT"
            )
        with self._out.busy("taking what sources have"):
            self._statements.settle()
        self._print_changes()
        if follows:
            self._follow()
        for _, subscribed in self._subscribed:
            subscribed.close()

    def _show(self, statement: str, result: Any) -> None:
        if isinstance(result, Subscribed):
            self._out.heading(result.columns)
            self._subscribed.append((statement, result))
        elif isinstance(result, Following):
            self._out.said(statement, "FOLLOW " + ", ".join(result.status))
        elif isinstance(result, Result) and result.has_rows:
            self._out.table(statement, result.to_arrow())
        else:
            self._out.said(statement, result.message)

    def _print_changes(self) -> None:
        for statement, subscribed in self._subscribed:
            for row in subscribed:
                self._out.change(statement, subscribed.columns, tuple(row))

    def _follow(self) -> None:
        """Follow every stream until all have ended, which they do when they are stopped."""
        feeds = self._statements.feeds
        if [s for s in feeds.live(*FOLLOWED) if s.name not in feeds.followed]:
            self._statements.follow(Follow())
        for following in feeds.followings:
            while not following.wait(LOOKS_EVERY):
                self._print_changes()
        self._print_changes()
