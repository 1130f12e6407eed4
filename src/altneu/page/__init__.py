"""The live page: a session in a browser, while it runs, and what Prometheus asks of it.

A thread of the session's process serves it. Steps are not delayed: after each step the page stores what the session has
as of then (``snapshot``), which is immutable and is read while the next step runs. Only a query waits for the session.
"""

from altneu.page.monitor import Monitor
from altneu.page.server import Page, serve

__all__ = ["Monitor", "Page", "serve"]
