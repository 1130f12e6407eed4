"""Numbers as texts by a format, and back: ``to_char``, ``to_number``, ``format_number``.

Source: Spark SQL reference, Number Pattern; what ``to_char`` does of leading zeros and signs is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.coercion import INTEGRAL, is_numeric
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.strings import scalar
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_FORM = re.compile(
    r"(?P<sign>MI|S)?(?P<dollar>\$)?(?P<whole>[09](?:[09]|,(?=[09]))*)?(?P<point>\.)?(?P<part>[09]*)(?P<end>PR|MI|S)?"
)
_MOST = 38
_WIDE = Context(prec=400)


class _Form(NamedTuple):
    """A format taken apart; ``groups`` are the digits between commas."""

    text: str
    sign: str
    dollar: bool
    groups: tuple[str, ...]
    point: bool
    part: int
    end: str

    @property
    def digits(self) -> int:
        """How many digits stand before the point."""
        return sum(map(len, self.groups))


@lru_cache(maxsize=256)
def _form(text: str) -> _Form:
    """Take a format apart.

    Raises:
        TypeMismatchError: it is none.
    """
    upper = text.upper()
    match = _FORM.fullmatch(upper.replace("G", ",").replace("D", "."))
    whole, part = (match["whole"] or "", match["part"]) if match else ("", "")
    if (
        match is None
        or not whole + part
        or (match["sign"] and match["end"])
        or len(whole.replace(",", "") + part) > _MOST
    ):
        raise TypeMismatchError(
            f"the number format {text!r} must be [MI|S] [$] digits 0, 9 and commas (, or G), [. or D] digits, [PR|MI|S]"
        )
    groups = tuple(whole.split(",")) if whole else ()
    return _Form(
        text, match["sign"] or "", bool(match["dollar"]), groups, bool(match["point"]), len(part), match["end"] or ""
    )


def _constant_form(args: Arguments) -> _Form | None:
    value = getattr(args[1], "value", None)
    if args[1].type == T.NULL:
        return None
    if not isinstance(value, str):
        raise TypeMismatchError(f"{args.name}: the format `{args[1].text}` must be a constant text")
    return _form(value)


def _written(number: Decimal, form: _Form) -> str:
    negative, (digits, part) = number < 0, _split(number)
    if len(digits) > form.digits or len(part) > form.part:
        return _overflown(negative, form)
    out: list[str] = []
    start = form.sign or ("PR" if form.end == "PR" else "")
    sign = {"S": "-" if negative else "+", "MI": "-" if negative else " ", "PR": "<" if negative else ""}.get(start, "")
    out.extend(sign)
    if form.dollar:
        out.append("$")
    _digits_before(out, digits.rjust(form.digits), form)
    if form.point:
        if out and out[-1] == " ":
            out[-1] = "0"
        out += [".", *part.ljust(form.part, "0")] if form.part else [" "]
    end = {"S": "-" if negative else "+", "MI": "-" if negative else " ", "PR": ">" if negative else "  "}
    text = "".join(out)
    kept = text.rstrip(" ") if form.end in ("S", "MI") else text
    return kept + end.get(form.end, "") + " " * (len(text) - len(kept))


def _digits_before(out: list[str], digits: str, form: _Form) -> None:
    """The digits before the point: blanks for leading zeros but in a group that starts with 0; a sign comes behind."""
    at, begun = 0, False
    for number, group in enumerate(form.groups):
        if number and out and out[-1].isdigit():
            out.append(",")
        elif number:
            _blank(out)
        for char in digits[at : at + len(group)]:
            begun = begun or char != " "
            if char != " " or begun or group[0] == "0":
                out.append("0" if char == " " else char)
            else:
                _blank(out)
        at += len(group)


def _blank(out: list[str]) -> None:
    out.insert(len(out) - 1 if out and out[-1] in "+-<" else len(out), " ")


def _split(number: Decimal) -> tuple[str, str]:
    """Digits before and after the point, without zeros at either end."""
    whole, _, part = format(number.copy_abs(), "f").partition(".")
    return whole.lstrip("0"), part.rstrip("0")


def _overflown(negative: bool, form: _Form) -> str:
    body = " ".join("#" * len(g) for g in form.groups) + ("" if not form.point else "." if form.part else " ")
    body += "#" * form.part
    sign = {"S": "-" if negative else "+", "MI": "-" if negative else " "}
    around = ("<", ">") if negative else ("", "  ")
    start, end = around if form.end == "PR" else (sign.get(form.sign, ""), sign.get(form.end, ""))
    return f"{start}{'$' if form.dollar else ''}{body}{end}"


def _char_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if kind in (T.STRING, T.NULL):
        kind = T.DOUBLE
    if is_numeric(kind):
        _constant_form(args)
        if kind in INTEGRAL:
            kind = pa.decimal128({T.BYTE: 3, T.SHORT: 5, T.INT: 10, T.LONG: 20}[kind], 0)
        elif not pt.is_decimal(kind):
            kind = pa.decimal128(30, 15) if kind == T.DOUBLE else pa.decimal128(14, 7)
        return Typing([kind, args.accept(1, T.STRING)], T.STRING)
    raise TypeMismatchError(f"{args.name} takes a number here, not {T.type_name(kind)} (`{args[0].text}`)")


@scalar("to_char(a, format)", "to_varchar", rule=_char_rule)
def to_char(call: Call, a: pa.Array, form: str) -> Out:
    """A number by a format such as `'$99G999D00'` or `'S000.9'`; a date or timestamp, or bytes, by theirs."""
    return each(call, lambda number: _written(number, _form(form)), a)


# to_number ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _reader(text: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a number starts with, and what follows."""
    form = _form(text)
    whole, needed = "", False
    for group in form.groups:
        exact = group[0] == "0"
        own = rf"\d{{{len(group)}}}" if exact else rf"\d{{0,{len(group)}}}"
        whole = own if not whole else rf"(?:{whole},){'' if needed else '?'}{own}"
        needed = needed or exact
    part = rf"(?:\.\d{{0,{form.part}}})?" if form.point else ""
    sign = {"S": "[+-]?", "MI": "-?"}
    dollar = r"\$" if form.dollar else ""
    if form.end == "PR":
        return re.compile(rf"(?P<open><)?{dollar}"), re.compile(rf"(?P<whole>{whole})(?P<part>{part})(?P<last>>?)")
    first, last = sign.get(form.sign, ""), sign.get(form.end, "")
    return re.compile(f"(?P<open>{first}){dollar}"), re.compile(f"(?P<whole>{whole})(?P<part>{part})(?P<last>{last})")


def _taken(text: str, form: str) -> tuple[str, bool] | None:
    """The digits of a text and whether it is negative; None if it does not fit. Blanks may stand among the digits."""
    start, rest = _reader(form)
    head = start.match(text)
    if head is None or re.search(r"[+\->]\s+$", text):
        return None
    match = rest.fullmatch(re.sub(r"\s", "", text[head.end() :]))
    if match is None or (head["open"] == "<") != (match["last"] == ">"):
        return None
    digits = (match["whole"] + match["part"]).replace(",", "")
    negative = head["open"] in ("-", "<") or match["last"] == "-"
    return (digits, negative) if any(char.isdigit() for char in digits) else None


def _number_rule(args: Arguments) -> Typing:
    form = _constant_form(args)
    if form is None or not form.groups:
        raise TypeMismatchError(f"{args.name}: the format `{args[1].text}` must have a digit before the point")
    kind = pa.decimal128(form.digits + form.part, form.part)
    return Typing([args.accept(0, T.STRING), T.STRING], kind, True)


def _read(call: Call, s: pa.Array, form: str) -> Out:
    def number(text: str) -> Decimal | None:
        taken = _taken(text, form)
        if taken is None:
            if call.name == "try_to_number":
                return None
            raise RowFailure("INVALID_FORMAT", f"{call.name}: {text!r} does not fit the format {form!r}")
        whole, _, part = taken[0].partition(".")
        value = Decimal(f"{whole or '0'}.{part or '0'}")
        return (-value if taken[1] else value).quantize(Decimal(1).scaleb(-call.type.scale), context=_WIDE)

    return each(call, number, s)


scalar(
    "to_number(s, format)", rule=_number_rule, fails=True, doc="The number in a text that a format reads, a decimal."
)(_read)
scalar("try_to_number(s, format)", rule=_number_rule, doc="`to_number`, but NULL if the text does not fit.")(_read)


# format_number --------------------------------------------------------------------------------------------------------

_PATTERN = re.compile(r"(?P<whole>[#,]*[0,]*)(?:\.(?P<part>0*#*))?")
_MOST_PLACES = 10_000


def _format_rule(args: Arguments) -> Typing:
    kind, places = args.number(), args[1]
    if args[0].type == T.STRING:
        raise TypeMismatchError(f"format_number takes a number, not string (`{args[0].text}`); cast it")
    if places.type in (*INTEGRAL[:3], T.NULL):
        return Typing([kind, T.INT], T.STRING, True)
    value = getattr(places, "value", None)
    if places.type != T.STRING or not isinstance(value, str):
        raise TypeMismatchError(f"format_number: `{places.text}` must be a number of digits, or a constant pattern")
    if _PATTERN.fullmatch(value) is None:
        raise UnsupportedFunctionError(
            f"format_number: the pattern {value!r} must be of #, 0 and commas, a point, and 0 and #"
        )
    return Typing([kind, None], T.STRING, True)


@scalar(
    "format_number(a, digits)",
    rule=_format_rule,
    usage="format_number(a, digits), format_number(a, pattern)",
    fails=True,
)
def format_number(call: Call, a: pa.Array, places: pa.Array) -> Out:
    """A number with commas, rounded half to even to so many digits, or by a pattern such as `'#,##0.0#'`."""
    shown = _by_pattern if places.type == T.STRING else _by_places
    return each(call, lambda number, how: _unless_endless(number, how, shown), a, places)


class _Double(NamedTuple):
    """The shortest digits that are read as a double, and its exact value, which decides a tie of the digits."""

    digits: Decimal
    exact: Decimal

    def rounded(self, places: int) -> Decimal:
        """Rounded to so many digits after the point, half to even."""
        context, last = Context(prec=places + 400), Decimal(1).scaleb(-places)
        down = self.digits.quantize(last, ROUND_DOWN, context)
        is_tie = context.subtract(self.digits, down).copy_abs() == last / 2
        return (self.exact if is_tie else self.digits).quantize(last, ROUND_HALF_EVEN, Context(prec=places + 1200))


def _unless_endless(number: Any, how: Any, shown: Callable[[_Double, Any], str | None]) -> str | None:
    value = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if value.is_nan():
        return None if isinstance(how, int) and how < 0 else "NaN"
    if value.is_infinite():
        return None if isinstance(how, int) and how < 0 else "∞" if value > 0 else "-∞"
    if isinstance(number, float):
        return shown(_Double(value, Decimal(number)), how)
    return shown(_Double(value, value), how)


def _by_places(value: _Double, places: int) -> str | None:
    if places < 0:
        return None
    if places > _MOST_PLACES:
        raise RowFailure(
            "VALUE_TOO_LARGE", f"format_number: {places:,} digits after the point; at most {_MOST_PLACES:,}"
        )
    return _rounded(value, places, places, 3, 1)


def _by_pattern(value: _Double, pattern: str) -> str | None:
    match = _PATTERN.fullmatch(pattern or "#,###,###,###,###,###,##0")
    assert match is not None
    whole, part = match["whole"], match["part"] or ""
    group = len(whole) - whole.rindex(",") - 1 if "," in whole else 0
    return _rounded(value, part.count("0"), len(part), group, max(whole.count("0"), 0 if "0" in part else 1))


def _rounded(value: _Double, least: int, most: int, group: int, whole: int) -> str:
    """A number in ``least`` to ``most`` digits after the point and at least ``whole`` before it, in groups."""
    rounded = value.rounded(most)
    before, _, after = format(rounded.copy_abs(), "f").partition(".")
    while len(after) > least and after.endswith("0"):
        after = after[:-1]
    before = before.lstrip("0").rjust(whole, "0")
    if group:
        head = len(before) % group
        before = ",".join(
            [*([before[:head]] if head else []), *(before[i : i + group] for i in range(head, len(before), group))]
        )
    return ("-" if value.digits < 0 else "") + before + (f".{after}" if after else "")
