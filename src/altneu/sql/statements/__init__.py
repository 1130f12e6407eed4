"""SQL statements over a session (docs/sql.md): what they say, what they define, and what they do."""

from __future__ import annotations

from altneu.sql.statements.parser import parse
from altneu.sql.statements.result import Result
from altneu.sql.statements.run import Statements
from altneu.sql.statements.subscribed import Subscribed

__all__ = ["Result", "Statements", "Subscribed", "parse"]
