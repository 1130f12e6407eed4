"""Pictures of a run: one HTML file with everything inside, which a browser shows without a network.

The report takes plain data and knows of no session, so whatever has steps can be drawn: a run, a benchmark, a service's
last hour. The charts are drawn by uPlot (MIT licence), which lies in ``altneu/page/uplot`` as published.
"""

from examples.report.model import Cell, Report, StepRecord, Table, Text, percentile
from examples.report.render import render, write

__all__ = ["Cell", "Report", "StepRecord", "Table", "Text", "percentile", "render", "write"]
