"""The flights that left New York City in 2013, as a day-by-day change stream under maintained views.

``python -m examples.flights`` runs it. ``data`` makes the stream, ``pipeline`` says the views with altneu's public
API, ``verify`` says them again in Spark SQL and compares, ``run`` is the run itself, ``show`` what a person sees of it.
"""
