"""The charting library uPlot (MIT licence), as published; the report and the live page draw with it."""

from importlib.resources import files


def asset(name: str) -> str:
    """One of its files as text.

    >>> "uPlot" in asset("uPlot.iife.min.js"), ".uplot" in asset("uPlot.min.css")
    (True, True)
    """
    return files("altneu.uplot").joinpath(name).read_text(encoding="utf-8").strip()
