"""SQL statements over a session (docs/sql.md): what they say, what they define, and what they do."""

from __future__ import annotations

from altneu.statements.parser import parse
from altneu.statements.result import Result
from altneu.statements.run import Statements
from altneu.statements.subscribed import Subscribed

__all__ = ["Result", "Statements", "Subscribed", "parse"]
