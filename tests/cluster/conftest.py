"""A cluster of the run's own, one for all tests of this folder."""

from __future__ import annotations

import os

# These tests need the one Spark session of their process to be the cluster's: `make cluster` runs them.
collect_ignore_glob = [] if os.environ.get("ALTNEU_CLUSTER") else ["test_*.py"]
