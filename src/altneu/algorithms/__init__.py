"""Graph algorithms and running sums, maintained while their input changes (docs/algorithms.md is a tutorial).

Each function takes a collection of edges, by default in columns ``src`` and ``dst``, and returns a collection; each is
composed of a few verbs, most of them with a loop. Nodes are whole numbers or strings, and "least" is in their order.
Edges with a null end are ignored. An edge that is retracted more often than inserted becomes an error row.

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
from altneu.algorithms.numbering import identifiers
from altneu.algorithms.paths import bfs, bidirectional_search, reachability, shortest_paths, transitive_closure
from altneu.algorithms.propagation import propagate, sequence
from altneu.algorithms.ranking import pagerank
from altneu.algorithms.running import prefix_scan, prefix_sums

__all__ = [
    "bfs",
    "bidirectional_search",
    "clustering_coefficient",
    "connected_components",
    "identifiers",
    "k_core",
    "k_truss",
    "label_propagation",
    "pagerank",
    "prefix_scan",
    "prefix_sums",
    "propagate",
    "reachability",
    "sequence",
    "shortest_paths",
    "strongly_connected_components",
    "transitive_closure",
    "triangles",
]
