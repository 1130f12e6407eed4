"""A few of the runs that ``make faults`` makes by the hundred."""

from __future__ import annotations

import pytest

from faults import local


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "count"), [(local.kills, 5), (local.failures, 4), (local.flips, 5)])
def test_what_is_disturbed_ends_as_what_is_not(kind, count, tmp_path):
    done: list[None] = []
    findings = kind(count, 7, tmp_path, lambda: done.append(None))
    assert not findings.differences
    assert findings.runs == len(done) == count
    assert findings.struck > count // 3
