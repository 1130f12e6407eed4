"""The charting library uPlot (MIT licence), as published; the live page and the reports of examples draw with it."""

from importlib.resources import files


def asset(name: str) -> str:
    """One of its files as text.

    >>> "uPlot" in asset("uPlot.iife.min.js"), ".uplot" in asset("uPlot.min.css")
    (True, True)
    """
    return files("altneu.page.uplot").joinpath(name).read_text(encoding="utf-8").strip()
