"""Times: lattices as values, antichains of times as frontiers, and the times at which a group may change.

``Embedding``, ``FiniteLattice`` and ``Lexicographic`` lay times of one's own out on the coordinates of sources.

>>> from altneu.order import AltNeu, Antichain, Epoch, Product
>>> lattice = Product(Epoch(), Epoch())
>>> times = lattice.from_pylist([(0, 1), (1, 0), (2, 2)])
>>> frontier = Antichain(lattice, times)
>>> frontier
Antichain({(0, 1), (1, 0)})
>>> lattice.to_pylist(frontier.advance(lattice.minimum()))
[(0, 0)]
"""

from altneu.order.antichain import Antichain
from altneu.order.closure import chain_joins, due_and_pended, interesting_times
from altneu.order.embedding import MAX_TIMES, Embedding, FiniteLattice, Lexicographic
from altneu.order.lattice import LARGEST, AltNeu, Epoch, Lattice, Moment, Product, Rounds, alt, neu, outside
from altneu.order.scopes import epochs, fixed, has_moments, lifted, lifted_frontier, parted, placed

__all__ = [
    "LARGEST",
    "MAX_TIMES",
    "AltNeu",
    "Antichain",
    "Embedding",
    "Epoch",
    "FiniteLattice",
    "Lattice",
    "Lexicographic",
    "Moment",
    "Product",
    "Rounds",
    "alt",
    "chain_joins",
    "due_and_pended",
    "epochs",
    "fixed",
    "has_moments",
    "interesting_times",
    "lifted",
    "lifted_frontier",
    "neu",
    "outside",
    "parted",
    "placed",
]
