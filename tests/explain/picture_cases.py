"""What tests of picture share with other tests."""

from __future__ import annotations

import altneu as an

EDGES = an.source("edges", "src long, dst long")
NODES = an.source("nodes", "node long")


def reach(edges):
    def step(found):
        return found.join(edges, on={"dst": "src"}).select("src", dst="right.dst").concat(edges).distinct()

    return edges.iterate(step)


def inner(found):
    return found.iterate(
        lambda x: x.join(EDGES, on={"dst": "src"}).select("src", dst="right.dst").concat(found).distinct()
    )


LOOPS = {
    "reach": reach(EDGES),
    "reach of reach": reach(reach(EDGES)),
    "nested": EDGES.iterate(lambda x: inner(x).concat(EDGES).distinct(), max_rounds=9),
    "mutual": an.recursive(
        lambda odd, even: (
            even.join(EDGES, on={"node": "src"}).select(node="right.dst").distinct(),
            odd.join(EDGES, on={"node": "src"}).select(node="right.dst").concat(NODES).distinct(),
        ),
        odd=NODES.filter("false"),
        even=NODES,
    )[0],
    "moments in a loop": EDGES.differentiate().join(EDGES.delay_to_neu(), on="src").integrate().select("src", "dst"),
}
TRIANGLES = (
    EDGES.join(EDGES, on={"dst": "src"})
    .select("src", mid="dst", dst="right.dst")
    .join(EDGES, on={"dst": "src", "src": "dst"})
)
