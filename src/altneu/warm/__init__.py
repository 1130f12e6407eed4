"""Compile the kernels ahead of time: ``python -m altneu.warm``.

Numba compiles a kernel when it is first called with arrays of a kind, and keeps the result beside the module. A fresh
installation would pay for that in its first steps. Several processes compile what ``kernels.txt`` lists; then one runs
every operator on a few rows, which compiles what the list lacks.
"""

from altneu.warm.everything import warm

__all__ = ["warm"]
