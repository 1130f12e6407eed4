"""What tests of durable share with other tests."""

from __future__ import annotations

import contextlib
import resource

# a full disk ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_file_beyond(size):
    """The process may write no file of more bytes: what a full disk does, and needs no root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
