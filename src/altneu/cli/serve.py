"""``altneu serve``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from altneu.cli.command import Taught, path_option, reporting, stopped_cleanly
from altneu.cli.opening import open_session, store_folder
from altneu.cli.output import Output
from altneu.cli.run import Pipeline
from altneu.errors import StoreLockedError
from altneu.session import Session

_BUSY = (
    "altneu: that session can show its own page: session.serve() in the program, or altneu run … --serve; "
    "altneu query, subscribe, status and explain work beside it"
)


@click.command(
    cls=Taught,
    short_help="Show a store, or a running pipeline, in a browser.",
    examples=[
        ("show a store in the browser; the first line is the address (Ctrl-C ends it)", "altneu serve --path state"),
        (
            "choose the port, and allow INSERT and DELETE",
            "altneu serve --path state --port 8080 --allow-writes",
        ),
        (
            "the page of a pipeline, while it runs and afterwards",
            """\
echo "
  CREATE TABLE clicks (page STRING, at BIGINT);
  CREATE MATERIALIZED VIEW visits AS SELECT page, count(*) AS n FROM clicks GROUP BY page;
" | altneu serve - --allow-writes""",
        ),
    ],
    exits={0: "ended by Ctrl-C or SIGTERM"},
    shape='first {"url", "store"}; then the output of altneu run for the statements of FILE.sql',
)
@click.argument("pipeline", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@path_option(required=False)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; by default only this machine can connect.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free port.")
@click.option("--allow-writes", is_flag=True, help="Let the page run statements that change something.")
@click.option(
    "--token", help="A secret in the address of the page; a host that others can reach needs it, or --open-to-all."
)
@click.option("--open-to-all", is_flag=True, help="Let everybody who can reach the host see all rows.")
@click.option("--master", help='Run on Spark, such as "local[*]"; required for streams.')
@click.option("--follow/--once", "follows", default=True, help="Follow streams, or process the available rows once.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as for altneu run.")
@reporting
def serve(  # noqa: PLR0913  # options, each by its name
    out: Output,
    pipeline: str | None,
    path: str | None,
    host: str,
    port: int,
    token: str | None,
    master: str | None,
    settings: tuple[str, ...],
    *,
    allow_writes: bool,
    open_to_all: bool,
    follows: bool,
) -> None:
    """Show a store, or a pipeline while it runs, in a browser: the graph, steps, views, changes, a box for queries.

    For a store it shows the definitions made in SQL; views that a Python program maintains are on that program's own
    page (session.serve()). It opens the store as a session does, so no other session may have it open. Without
    --allow-writes the page is read-only.
    """
    if path is None and pipeline is None:
        raise click.UsageError("name a store with --path, or a FILE.sql, or both")
    if path is not None and pipeline is None:
        store_folder(path)  # which is not to be made here
    text = "" if pipeline is None else sys.stdin.read() if pipeline == "-" else Path(pipeline).read_text("utf-8")
    with stopped_cleanly(), suppress(KeyboardInterrupt):
        with out.busy("opening"):
            session = _opened(path, master, settings)
        with session:
            page = session.serve(host, port, allow_writes=allow_writes, token=token, open_to_all=open_to_all)
            out.address(page.url, path)
            _note_unknown(out, session)
            Pipeline(session, out).run(text, follows=follows and master is not None)
            page.wait()


def _opened(path: str | None, master: str | None, settings: tuple[str, ...]) -> Session:
    try:
        return open_session(path, master, settings)
    except StoreLockedError as error:
        error.add_note(_BUSY)
        raise


def _note_unknown(out: Output, session: Session) -> None:
    """Say what is not shown: views whose plan no statement tells."""
    session.sql("")
    unknown = [name for name in session.views_stored if name not in session.views]
    if unknown:
        out.note(f"not shown, as Python programs define them: {', '.join(unknown)}; session.serve() there shows them")
