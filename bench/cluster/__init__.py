"""A real Spark cluster on this machine: a master and workers, each a process of its own on the loopback address.

``python -m bench.cluster`` starts one to connect to; tests and benchmarks use ``Cluster``.
"""

from bench.cluster.processes import Cluster

__all__ = ["Cluster"]
