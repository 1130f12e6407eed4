"""What tests of order share with other tests."""

from __future__ import annotations

import itertools

from altneu.order import AltNeu, Epoch, Lattice, Moment, Product

E = Epoch()
LATTICES: dict[str, tuple[Lattice, int]] = {  # with the number of values per epoch in its grid
    "Epoch": (E, 5),
    "Product(E,E)": (Product(E, E), 4),
    "AltNeu(E)": (AltNeu(E), 4),
    "AltNeu(Product(E,E))": (AltNeu(Product(E, E)), 3),
    "AltNeu(Product(E,E,E))": (AltNeu(Product(E, E, E)), 2),
    "Product(AltNeu(E),E)": (Product(AltNeu(E), E), 3),
    "Product(AltNeu(E),AltNeu(E))": (Product(AltNeu(E), AltNeu(E)), 2),
    "Product(AltNeu(Product(E,E)),E)": (Product(AltNeu(Product(E, E)), E), 2),
    "AltNeu(AltNeu(Product(E,E)))": (AltNeu(AltNeu(Product(E, E))), 2),
}


def values(lattice: Lattice, n: int) -> list[object]:
    """Every time whose epochs are below ``n``, as Python values. The set is closed under join and meet."""
    if isinstance(lattice, Product):
        return list(itertools.product(*(values(factor, n) for factor in lattice.factors)))
    if isinstance(lattice, AltNeu):
        return [Moment(time, flag) for time in values(lattice.inner, n) for flag in (False, True)]
    return list(range(n))
