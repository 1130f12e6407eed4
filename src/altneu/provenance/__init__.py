"""Why a row is in a view: the input rows that it rests on, found by following the view's plan back.

``narrow`` says which rows of its inputs decide given rows of an operator, ``finding`` reads them from arrangements,
``tracing`` follows rows back operator by operator, ``rounds`` through loops, and ``explanation`` is what comes of it.

Source: Chothia, Liagouris, McSherry, Roscoe, Explaining Outputs in Modern Data Analytics, VLDB 2016: what is looked for
        are input rows from which alone the row follows, and a loop is followed back round by round.
"""

from altneu.provenance.explain_row import explain_row
from altneu.provenance.explanation import Explanation, InputRows, Support

__all__ = ["Explanation", "InputRows", "Support", "explain_row"]
