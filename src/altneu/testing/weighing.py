"""The laws of weights, tested with Hypothesis."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from altneu.collections.weights import Weight
from altneu.columnar.rows import array_of
from altneu.errors.extras import require
from altneu.types import parse_schema

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def assert_weight_laws(weight: Weight, values: SearchStrategy[Any], *, examples: int = 200) -> None:
    """Assert that a weight obeys the laws of what it has: ``add``, ``zero``, ``negate``, ``multiply`` and ``one``.

    ``values`` is a Hypothesis strategy for weights. Each law is tested on ``examples`` triples of them; what sums and
    products come to is compared as values, as altneu compares rows. Values must come back from the ``layout`` as they
    were. Arguments must not be changed.

    Needs Hypothesis: ``pip install 'altneu[testing]'``.

    Raises:
        AssertionError: names the law and the least weights found for which it does not hold.

    >>> import altneu as an
    >>> from hypothesis import strategies as st
    >>> assert_weight_laws(an.weights.Sums("n"), st.integers(-9, 9), examples=20)
    >>> class Mean(an.weights.Weight):
    ...     layout, zero = "double", 0.0
    ...
    ...     def add(self, a, b):
    ...         return (a + b) / 2
    >>> assert_weight_laws(Mean("x"), st.sampled_from([0.0, 1.0, 4.0]), examples=50)
    Traceback (most recent call last):
    AssertionError: Mean('x'): add is associative: add(add(0.0, 0.0), 1.0) is 0.5, and not 0.25
    ...
    """
    require("testing", "altneu.testing.assert_weight_laws")
    from hypothesis import given, settings

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)
    @given(values, values, values)
    def laws(a: Any, b: Any, c: Any) -> None:
        _Laws(weight).check(a, b, c)

    laws()


class _Laws:
    def __init__(self, weight: Weight) -> None:
        self.weight = weight
        layout = getattr(weight, "layout", None)
        self.type = None if layout is None else parse_schema(f"weight {layout}").field(0).type

    def check(self, *three: Any) -> None:
        before = deepcopy(three)
        self.laws(*three)
        if before != three:
            raise AssertionError(f"{self.weight}: a method changed its arguments: {before!r} became {three!r}")

    def laws(self, a: Any, b: Any, c: Any) -> None:
        add, zero = self.weight.add, self.weight.zero
        self.is_stored(a)
        self.same("zero is the identity of add", f"add({a!r}, {zero!r})", add(a, zero), a)
        self.same("add is commutative", f"add({a!r}, {b!r})", add(a, b), add(b, a))
        self.same("add is associative", f"add(add({a!r}, {b!r}), {c!r})", add(add(a, b), c), add(a, add(b, c)))
        self.is_stored(add(a, b))
        if self.weight.negate is not None:
            self.is_zero("a weight and its negative are zero", f"add({a!r}, negate({a!r}))", add(a, self.negative(a)))
        if self.weight.multiply is not None:
            self.products(a, b, c)

    def products(self, a: Any, b: Any, c: Any) -> None:
        add, multiply, zero = self.weight.add, self.weight.multiply, self.weight.zero
        left = f"multiply({a!r}, add({b!r}, {c!r}))"
        self.same("multiply distributes over add", left, multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c)))
        right = f"multiply(add({b!r}, {c!r}), {a!r})"
        self.same("multiply distributes over add", right, multiply(add(b, c), a), add(multiply(b, a), multiply(c, a)))
        for text, product in (
            (f"multiply({zero!r}, {a!r})", multiply(zero, a)),
            (f"multiply({a!r}, {zero!r})", multiply(a, zero)),
        ):
            self.is_zero("zero times anything is zero", text, product)
        self.is_stored(multiply(a, b))
        if (one := self.weight.one) is not None:
            self.is_stored(one)
            self.same("one is the unit of multiply", f"multiply({a!r}, {one!r})", multiply(a, one), a)
            self.same("one is the unit of multiply", f"multiply({one!r}, {a!r})", multiply(one, a), a)

    def negative(self, a: Any) -> Any:
        negative = self.weight.negate(a)
        self.is_stored(negative)
        return negative

    def same(self, law: str, text: str, found: Any, wanted: Any) -> None:
        both_zero = self.weight.is_zero(found) and self.weight.is_zero(wanted)
        if not both_zero and found != wanted:
            raise AssertionError(f"{self.weight}: {law}: {text} is {found!r}, and not {wanted!r}")

    def is_zero(self, law: str, text: str, found: Any) -> None:
        if not self.weight.is_zero(found):
            raise AssertionError(f"{self.weight}: {law}: {text} is {found!r}, and not {self.weight.zero!r}")

    def is_stored(self, value: Any) -> None:
        """A value that is read back from its layout is equal."""
        if self.type is None:
            return
        try:
            (again,) = array_of([value], self.type).to_pylist()
        except Exception as error:  # noqa: BLE001 -- pyarrow calls what the values are made of
            raise AssertionError(
                f"{self.weight}: {value!r} cannot be stored as {self.weight.layout}: {error}"
            ) from None
        if again != value:
            raise AssertionError(
                f"{self.weight}: {value!r} is stored as {self.weight.layout} and comes back as {again!r}"
            )
