"""Graph algorithms, and running sums, kept right while their input changes (docs/algorithms.md teaches them).

Each takes a collection of edges, in columns ``src`` and ``dst`` unless told otherwise, and gives a collection; all are
a few verbs, most of them with a loop. Nodes are whole numbers or texts, and "least" is by their order. An edge with a
null end is none. An edge that is retracted more often than it was inserted makes an error row.

>>> import altneu as an
>>> friends = an.source("friends", "one string, other string")
>>> with an.Session() as session:
...     circles = an.algorithms.connected_components(friends, src="one", dst="other")
...     view = session.maintain("circles", circles)
...     session.insert("friends", [("ada", "bob"), ("bob", "cid"), ("dan", "eve")])
...     _ = session.advance()
...     sorted(view.to_pylist())
[('ada', 'ada'), ('bob', 'ada'), ('cid', 'ada'), ('dan', 'dan'), ('eve', 'dan')]
"""

from __future__ import annotations

from altneu.algorithms.cliques import clustering_coefficient, triangles
from altneu.algorithms.communities import label_propagation
from altneu.algorithms.components import connected_components, strongly_connected_components
from altneu.algorithms.cores import k_core, k_truss
from altneu.algorithms.paths import bfs, reachability, shortest_paths, transitive_closure
from altneu.algorithms.ranking import pagerank
from altneu.algorithms.running import prefix_sums

__all__ = [
    "bfs",
    "clustering_coefficient",
    "connected_components",
    "k_core",
    "k_truss",
    "label_propagation",
    "pagerank",
    "prefix_sums",
    "reachability",
    "shortest_paths",
    "strongly_connected_components",
    "transitive_closure",
    "triangles",
]
