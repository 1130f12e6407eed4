"""Arrival delays that are corrected days later, and what was known when: two times, made of the flights of 2013.

``python -m examples.corrections`` runs it. ``data`` makes the reports and says what was known from them alone, ``run``
keeps two views of them and compares both, ``__main__`` is what a person sees.
"""
