"""Expressions evaluated here give what engines give, or say that they cannot be sure."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.algebra.nodes import Column, Filter, Project, Scan
from headrace.engine import Engine
from headrace.language.dialect import DIALECT, headrace_sql
from headrace.language.types import arrow_type
from headrace.maintenance.kernels.scalars import NotHere, compiled, through

TYPES = {
    "t": "TINYINT", "i": "INT", "j": "INT", "l": "BIGINT", "n": "DECIMAL(5,2)", "m": "DECIMAL(15,4)",
    "w": "DECIMAL(38,6)", "s": "STRING", "u": "STRING", "b": "BOOLEAN", "c": "BOOLEAN", "d": "DATE", "e": "DATE",
    "x": "DOUBLE", "a": "TIMESTAMP",
}  # fmt: skip

ROW: dict[str, Any] = {
    "t": 100, "i": 7, "j": -3, "l": 1 << 40, "n": Decimal("1.50"), "m": Decimal("-2.2500"),
    "w": Decimal("9" * 32 + ".999999"), "s": "special requests", "u": "ä\U0001f600b", "b": True, "c": None,
    "d": date(1996, 2, 29), "e": None, "x": 1.5, "a": datetime(2024, 2, 29, 12, tzinfo=UTC),
}  # fmt: skip


def tree(text: str) -> Any:
    return DIALECT.parse(text)[0]


def rows_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], arrow_type(kind)) for name, kind in TYPES.items()})


def value(text: str, result: str, engine: str | None = None) -> Any:
    """What an expression gives for `ROW`; the function that computes it must also bear no rows at all."""
    run = compiled(tree(text), TYPES, result, engine)
    assert run is not None, text
    assert run(rows_of([])).type == arrow_type(result)
    found = run(rows_of([ROW, ROW]))
    assert len(found) == 2
    assert found.type == arrow_type(result)
    return found[1].as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 3 AND j < 0", True),
        ("i = l", False),
        ("t < l", True),
        ("n = 1.5", True),
        ("n <> 1.500", False),
        ("n > 1", True),
        ("m < n", True),
        ("i >= n", True),
        ("s < 'special sauce'", True),
        ("d <= DATE '1998-12-01' - INTERVAL '90' DAY", True),
        ("d < CAST('1995-01-31' AS DATE) + INTERVAL '1' YEAR", False),
        ("d = CAST('1996-01-31' AS DATE) + INTERVAL '1' MONTH", True),
        ("d = CAST('1996-03-30' AS DATE) - INTERVAL 1 MONTH", True),
        ("a < CAST('2024-03-01T00:00:00Z' AS TIMESTAMP)", True),
        ("b > FALSE", True),
        # Three values.
        ("c", None),
        ("c AND FALSE", False),
        ("c AND b", None),
        ("c OR b", True),
        ("NOT c", None),
        ("NULL AND b", None),
        ("c = NULL", None),
        ("e <=> NULL", True),
        ("d <=> e", False),
        ("d IS DISTINCT FROM e", True),
        ("c IS NULL", True),
        ("c IS NOT NULL", False),
        ("c IS TRUE", False),
        ("i BETWEEN 7 AND 8", True),
        ("i NOT BETWEEN 7 AND 8", False),
        ("n BETWEEN 0.06 - 0.01 AND 1 + 10", True),
        ("i IN (1, 7)", True),
        ("i IN (1, NULL, 7)", True),
        ("i IN (1, NULL)", None),
        ("i NOT IN (1, NULL)", None),
        ("i NOT IN (1, 2)", True),
        ("e IN (DATE '2020-01-01')", None),
        ("n IN (1, -1.5, 1.500)", True),
        ("s IN ('special', 'requests')", False),
        # Patterns.
        ("s LIKE '%special%requests%'", True),
        ("s NOT LIKE 'spe_ial%'", False),
        ("s LIKE 'special'", False),
        ("u LIKE 'ä_b'", True),
        ("'a.b' LIKE 'a.b' AND NOT 'axb' LIKE 'a.b' AND 'a\\nb' LIKE 'a_b'", True),
    ],
)
def test_truth(text: str, expected: bool | None) -> None:
    assert value(text, "BOOLEAN") is expected


@pytest.mark.parametrize(
    ("text", "result", "expected"),
    [
        ("i + j * 2", "INT", 1),
        ("i - l", "BIGINT", 7 - (1 << 40)),
        ("t + 100", "INT", 200),
        ("-i", "INT", -7),
        ("-2147483648", "INT", -(1 << 31)),
        ("n * (1 - m)", "DECIMAL(22,6)", Decimal("4.875000")),
        ("n * (1 + m) - i", "DECIMAL(24,6)", Decimal("-8.875000")),
        ("n * m * n * 0.1 * 0.1", "DECIMAL(38,10)", Decimal("-0.0506250000")),
        ("-n", "DECIMAL(5,2)", Decimal("-1.50")),
        ("n + 1", "DECIMAL(38,18)", Decimal("2.5")),
        ("CASE WHEN c THEN 1 WHEN b THEN n ELSE 0 END", "DECIMAL(12,2)", Decimal("1.50")),
        ("CASE WHEN c THEN 1 END", "INT", None),
        ("CASE i WHEN 1 THEN 'one' WHEN 7 THEN s ELSE u END", "STRING", "special requests"),
        ("IF(c, x, NULL)", "DOUBLE", None),
        ("COALESCE(e, d, DATE '2020-01-01')", "DATE", date(1996, 2, 29)),
        ("COALESCE(CAST(NULL AS INT), t)", "INT", 100),
        ("NULLIF(i, 7)", "INT", None),
        ("NULLIF(i, n)", "INT", 7),
        ("CAST(i AS BIGINT)", "BIGINT", 7),
        ("CAST(i AS TINYINT)", "TINYINT", 7),
        ("CAST(i AS DECIMAL(3, 1))", "DECIMAL(3,1)", Decimal("7.0")),
        ("CAST(n AS DECIMAL(20, 4))", "DECIMAL(20,4)", Decimal("1.5000")),
        ("NULL", "DECIMAL(3,1)", None),
        ("'it''s'", "STRING", "it's"),
        ("SUBSTRING(u, 2, 1)", "STRING", "\U0001f600"),
        ("SUBSTRING(u, 2, 9)", "STRING", "\U0001f600b"),
        ("SUBSTRING(u, 9, 2)", "STRING", ""),
        ("EXTRACT(YEAR FROM d) + MONTH(d) + DAY(d)", "INT", 1996 + 2 + 29),
        ("d + INTERVAL '1' DAY", "DATE", date(1996, 3, 1)),
        ("d - 29", "DATE", date(1996, 1, 31)),
        ("DATE_SUB(d, i)", "DATE", date(1996, 2, 22)),
        ("year(e)", "INT", None),
    ],
)
def test_values(text: str, result: str, expected: object) -> None:
    found = value(text, result)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("x = 1.5", "BOOLEAN"),  # floats
        ("x + 1", "DOUBLE"),
        ("i = '7'", "BOOLEAN"),  # a number taken out of a string
        ("d = '1996-02-29'", "BOOLEAN"),
        ("d = CAST('1996-2-29' AS DATE)", "BOOLEAN"),
        ("d = CAST('1996-02-30' AS DATE)", "BOOLEAN"),
        ("a = CAST('2024-02-29 12:00:00' AS TIMESTAMP)", "BOOLEAN"),  # of which zone?
        ("a = d", "BOOLEAN"),
        ("d + INTERVAL '1' MONTH", "DATE"),
        ("d + INTERVAL '1' HOUR", "TIMESTAMP"),
        ("d - e", "INTERVAL DAY TO SECOND"),
        ("n / 2", "DECIMAL(38,6)"),
        ("i % 2", "INT"),
        ("w * m", "DECIMAL(38,6)"),  # Spark cuts digits after the point
        ("w > CAST(n AS DECIMAL(38, 2))", "BOOLEAN"),
        ("w * w", "DECIMAL(38,6)"),
        ("-w", "DECIMAL(38,6)"),  # and rounds to 34 digits
        ("CAST(m AS DECIMAL(10, 2))", "DECIMAL(10,2)"),  # rounds
        ("n + 0.001", "DECIMAL(8,2)"),
        ("CAST(s AS INT)", "INT"),
        ("CAST(i AS STRING)", "STRING"),
        ("s LIKE u", "BOOLEAN"),
        ("s LIKE 'a\\\\%'", "BOOLEAN"),
        ("s LIKE 'a$%' ESCAPE '$'", "BOOLEAN"),
        ("s LIKE ANY ('a', 'b')", "BOOLEAN"),
        ("i IN (j, 1)", "BOOLEAN"),
        ("SUBSTRING(s, -2, 1)", "STRING"),
        ("SUBSTRING(s, i, 1)", "STRING"),
        ("SUBSTRING(s, 1)", "STRING"),
        ("year(a)", "INT"),
        ("unknown = 1", "BOOLEAN"),
        ("LOWER(s)", "STRING"),
        ("IF(i, 1, 2)", "INT"),
        ("i AND b", "BOOLEAN"),
        ("NULL = NULL", "BOOLEAN"),
        ("1e3 > i", "BOOLEAN"),
        ("99999999999999999999 > i", "BOOLEAN"),
        ("CASE WHEN b THEN i ELSE s END", "STRING"),
        ("rand() < 0.5", "BOOLEAN"),
    ],
)
def test_what_is_for_the_engine(text: str, result: str) -> None:
    assert compiled(tree(text), TYPES, result) is None


@pytest.mark.parametrize(
    ("text", "result", "on_spark", "on_sail"),
    [
        ("n / 7", "DECIMAL(38,12)", "0.214286", "0.214285"),
        ("-n / 7", "DECIMAL(38,12)", "-0.214286", "-0.214285"),
        ("n / -7", "DECIMAL(38,12)", "-0.214286", "-0.214285"),
        ("7.0 / n", "DECIMAL(38,12)", "4.6666667", "4.66666"),
        ("2 / n", "DECIMAL(38,12)", "1.333333", "1.3333"),
        ("i / m", "DECIMAL(38,16)", "-3.1111111111111111", "-3.1111"),
        ("n / i", "DECIMAL(38,16)", "0.2142857142857", "0.214285"),
        ("n / l", "DECIMAL(38,23)", "0.00000000000136424205266", "0"),
        ("100.00 * n / m", "DECIMAL(38,20)", "-66.66666666666666666667", "-66.66666666"),
        ("n / 3 / 7", "DECIMAL(38,12)", "0.07142857", "0.0714285714"),
        ("n / (m / 7)", "DECIMAL(38,20)", "-4.66666044445274072968", "-4.666666"),
        # A half is rounded away from zero, and nothing less than a half is.
        ("n / 640000", "DECIMAL(38,12)", "0.000002344", "0.000002"),
        ("0.001 / -2000.0", "DECIMAL(38,12)", "-0.0000005", "-0.0000005"),
        ("CAST(i AS DECIMAL(38,0)) / 2000000.0", "DECIMAL(38,6)", "0.000004", "0.0000"),
        ("CAST(j AS DECIMAL(38,0)) / 6000000.0", "DECIMAL(38,6)", "-0.000001", "0.0000"),
        ("CAST(j AS DECIMAL(38,0)) / 6000000.1", "DECIMAL(38,6)", "0", "0"),
        # Averages.
        ("CAST(m AS DECIMAL(25, 4)) / NULLIF(CAST(i AS DECIMAL(20, 0)), 0)", "DECIMAL(38,17)", "-0.32142857142857143",
         "-0.32142857"),
        ("n / NULLIF(CAST(i AS DECIMAL(20, 0)), 7)", "DECIMAL(38,23)", None, None),
        ("CAST(NULL AS DECIMAL(5, 2)) / n", "DECIMAL(11,8)", None, None),
        ("w / w", "DECIMAL(38,12)", NotHere, NotHere),
        ("w / 0.1", "DECIMAL(38,12)", NotHere, NotHere),
        ("n / 0", "DECIMAL(9,6)", NotHere, NotHere),
        ("n / (n - n)", "DECIMAL(38,20)", NotHere, NotHere),
        ("NULLIF(n, n) / (n - n)", "DECIMAL(38,20)", NotHere, NotHere),
        # Sail brings values to another type than Spark, and the digits of a quotient depend on that.
        ("COALESCE(n, m) / 3", "DECIMAL(38,12)", "0.500000", "refused"),
        ("CASE WHEN b THEN n ELSE 0 END / 7", "DECIMAL(38,12)", "0.214286", "refused"),
        ("NULLIF(n, m) / 7", "DECIMAL(38,12)", "0.214286", "refused"),
        # And has no room for so many digits, or does not round.
        ("n / CAST(n AS DECIMAL(38, 36))", "DECIMAL(38,6)", NotHere, "refused"),
        ("n / 7", "DECIMAL(10,2)", "0.21", "refused"),
        ("CAST(m AS DECIMAL(10, 1))", "DECIMAL(10,1)", "-2.3", "refused"),
        ("CAST(n AS DECIMAL(10, 0)) + 1", "DECIMAL(12,0)", "3", "refused"),
        ("n + 0.001", "DECIMAL(8,2)", "1.50", "refused"),
        ("CAST(w AS DECIMAL(38, 0))", "DECIMAL(38,0)", "1" + "0" * 32, "refused"),
        ("CAST(w AS DECIMAL(32, 0))", "DECIMAL(32,0)", NotHere, "refused"),
    ],
)  # fmt: skip
def test_quotients(text: str, result: str, on_spark: Any, on_sail: Any) -> None:
    for engine, expected in (("spark", on_spark), ("sail", on_sail)):
        run = compiled(tree(text), TYPES, result, engine)
        if expected is NotHere:
            assert run is not None
            with pytest.raises(NotHere):
                run(rows_of([ROW]))
        elif expected == "refused":
            assert run is None
        else:
            found = value(text, result, engine)
            assert found == (expected if expected is None else Decimal(expected)), engine
    for engine_or_none in (None, "connect"):
        assert compiled(tree(text), TYPES, result, engine_or_none) is None


def test_quotients_are_exact() -> None:
    """Digit for digit those of Python's integers."""
    choose = random.Random(1)
    compared = 0
    for _ in range(300):
        precision, other_precision = choose.randint(1, 38), choose.randint(1, 38)
        scale, other_scale = choose.randint(0, precision), choose.randint(0, other_precision)
        types = {"p": f"DECIMAL({precision},{scale})", "q": f"DECIMAL({other_precision},{other_scale})"}
        most, other_most = 10 ** choose.randint(1, precision), 10 ** choose.randint(1, other_precision)
        left = [choose.randrange(1 - most, most) for _ in range(9)]
        right = [choose.choice([-1, 1]) * choose.randrange(1, other_most) for _ in range(9)]
        # Many halves.
        right[:5] = [min(1 << choose.randint(0, 40), other_most - 1) for _ in range(5)]
        columns = {
            name: pa.array([None, *(Decimal(item).scaleb(-cut, Context(prec=99)) for item in items)], arrow_type(kind))
            for (name, kind), items, cut in zip(types.items(), (left, right), (scale, other_scale), strict=True)
        }
        for engine in ("spark", "sail"):
            if engine == "spark":
                whole, cut = precision - scale + other_scale, max(6, scale + other_precision + 1)
                cut = cut if whole + cut <= 38 else max(38 - whole, 6)
            else:
                cut = min(scale + 4, 38)
            run = compiled(tree("p / q"), types, f"DECIMAL(38,{cut})", engine)
            try:
                found = run(pa.table(columns)).to_pylist() if run is not None else None
            except NotHere:
                continue
            if found is not None:
                pairs = [
                    (one * 10 ** (cut + other_scale), two * 10**scale) for one, two in zip(left, right, strict=True)
                ]
                half = 1 if engine == "spark" else 0
                sizes = [(2 * abs(one) + half * abs(two)) // (2 * abs(two)) for one, two in pairs]
                signs = [-1 if (one < 0) != (two < 0) else 1 for one, two in pairs]
                wanted = [
                    Decimal(sign * size).scaleb(-cut, Context(prec=99)) for sign, size in zip(signs, sizes, strict=True)
                ]
                assert found == [None, *wanted], (types, engine)
                compared += 1
    assert compared > 300


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("i * 1000000000", "INT"),
        ("l * l", "BIGINT"),
        ("t + t", "TINYINT"),
        ("i + l", "INT"),
        ("CAST(l AS INT)", "INT"),
        ("CASE WHEN FALSE THEN l * l ELSE 0L END", "BIGINT"),
        ("w + w", "DECIMAL(38,6)"),
        ("w * 10", "DECIMAL(38,6)"),
        ("CAST(l AS DECIMAL(10, 0))", "DECIMAL(10,0)"),
        ("CAST(w AS DECIMAL(38, 12))", "DECIMAL(38,12)"),
        # Arrow's own cast makes other numbers of these.
        ("w * 1", "DECIMAL(38,20)"),
        ("l * 1000000.0 * 1000000.0", "DECIMAL(38,20)"),
        ("d + 2000000000", "DATE"),
        ("d + 2147483647", "DATE"),
    ],
)
def test_what_does_not_fit(text: str, result: str) -> None:
    run = compiled(tree(text), TYPES, result)
    assert run is not None
    with pytest.raises(NotHere):
        run(rows_of([ROW]))


def test_other_spellings_of_columns() -> None:
    run = compiled(tree("s = 'a' OR CASE WHEN s = 'b' THEN NULL ELSE FALSE END"), {"s": "STRING"}, "BOOLEAN")
    assert run is not None
    chunks = pa.chunked_array([["a"], [], ["b", "c", None]], pa.string())
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert run(pa.table({"s": chunks.cast(kind)})).to_pylist() == [True, None, False, None]
    assert run(pa.table({"s": pa.chunked_array([], pa.string())})).to_pylist() == []


def test_steps() -> None:
    start = (Column("i", "INT"), Column("s", "STRING"))
    scan = Scan(0, "r", start, ("i", "s"))
    kept = Filter(scan, tree("i > 1"))
    shown = (Column("p", "BIGINT"), Column("q", "STRING"), Column("one", "INT"))
    last = Filter(Project(kept, shown, (tree("i * 2"), tree("s"), tree("1"))), tree("p < 8"))
    run = through((kept, last.child, last), start)
    assert run is not None
    table = pa.table(
        {"more": [0] * 5, "__w": [1, -1, 1, 1, 2], "__t": [5, 6, 7, 8, 9], "s": list("abcde"), "i": [1, 2, 3, 4, None]},
        schema=pa.schema(
            {"more": pa.int64(), "__w": pa.int64(), "__t": pa.int64(), "s": pa.large_string(), "i": pa.int32()}
        ),
    )
    assert run(table).to_pylist() == [
        {"p": 4, "q": "b", "one": 1, "__t": 6, "__w": -1},
        {"p": 6, "q": "c", "one": 1, "__t": 7, "__w": 1},
    ]
    assert run(table.slice(0, 0)).column_names == ["p", "q", "one", "__t", "__w"]
    nothing = through((), start)
    assert nothing is not None
    assert nothing(table).column_names == ["i", "s", "__t", "__w"]
    assert through((Filter(scan, tree("LOWER(s) = 'a'")),), start) is None
    assert through((Project(scan, shown[1:2], (tree("LOWER(s)"),)),), start) is None


# --- As engines do ----------------------------------------------------------------------------------------------------

POOLS: dict[str, list[Any]] = {
    "t": [0, 1, -128, 127], "i": [0, 1, 2, 7, -(1 << 31), (1 << 31) - 1], "j": [0, 1, -1, 2],
    "l": [0, 1, 2, 1 << 40, (1 << 63) - 1], "n": [Decimal(text) for text in ("0.00", "1.00", "-1.50", "999.99")],
    "m": [Decimal(text) for text in ("0.0000", "1.0000", "-1.5001", "99999999999.9999")],
    "w": [Decimal(text) for text in ("0", "1", "-1.000001", "9" * 32 + ".999999")],
    "s": ["", "a", "ab", "a%b", "special requests", "\U0001f600", "\uffff", "a\nb"], "u": ["a", "A", "ä", "a.b", "ab"],
    "b": [True, False], "c": [True, False],
    "d": [date(1970, 1, 1), date(1600, 2, 29), date(2024, 2, 29), date(1995, 12, 31)], "e": [date(2024, 3, 1)],
    "x": [0.5, 1.5], "a": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)],
}  # fmt: skip

#: What an expression is cast to, by its family.
RESULTS = {"int": "BIGINT", "dec": "DECIMAL(38,18)", "str": "STRING", "bool": "BOOLEAN", "date": "DATE"}
COLUMNS = {"int": "tijl", "dec": "nmw", "str": "su", "bool": "bc", "date": "de"}
LITERALS = {
    "int": ["0", "1", "-1", "7", "100", "3000000000"],
    "dec": ["0.05", "1.0", "-1.50", "100.00", "0.00"],
    "str": ["'a'", "'ab'", "''", "'\U0001f600'"],
    "bool": ["TRUE", "FALSE"],
    "date": ["DATE '2024-02-29'", "CAST('1995-12-31' AS DATE)", "DATE '2024-01-31' + INTERVAL '1' MONTH"],
}
PATTERNS = ["a%", "%b", "%a%", "a_b", "_", "%", "", "a.b", "%e%s%", "[a]", "a%b", "__%"]


class Texts:
    """Random expressions of a family."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose

    def of(self, family: str, depth: int = 3) -> str:
        if depth == 0 or self.choose.random() < 0.15:
            return self.leaf(family)
        if self.choose.random() < 0.3:
            return self.chosen(family, depth - 1)
        return getattr(self, f"_{family}")(depth - 1)

    def leaf(self, family: str) -> str:
        return self.choose.choice(COLUMNS[family] if self.choose.random() < 0.7 else LITERALS[family])

    def chosen(self, family: str, depth: int) -> str:
        one, two, three = (self.of(family, depth) for _ in range(3))
        test = self.of("bool", depth)
        return self.choose.choice(
            [
                f"CASE WHEN {test} THEN {one} WHEN {self.of('bool', 0)} THEN {two} ELSE {three} END",
                f"CASE WHEN {test} THEN {one} END",
                f"CASE {one} WHEN {two} THEN {three} ELSE {self.leaf(family)} END",
                f"IF({test}, {one}, {self.choose.choice([two, 'NULL'])})",
                f"COALESCE({one}, {two})",
                # Sail gives this the wider type, in which a value may not fit.
                f"NULLIF({self.leaf(family)}, {self.leaf(family)})",
            ]
        )

    def _int(self, depth: int) -> str:
        if self.choose.random() < 0.3:
            day = self.of("date", depth)
            return self.choose.choice([f"year({day})", f"month({day})", f"EXTRACT(DAY FROM {day})"])
        one = self.of("int", depth)
        forms = [f"-({one})", *(f"CAST({one} AS {kind})" for kind in ("TINYINT", "SMALLINT", "INT", "BIGINT"))]
        return self.choose.choice([*forms, *[self.calculated(one, self.of("int", depth))] * 4])

    def _dec(self, depth: int) -> str:
        if self.choose.random() < 0.3:
            return self.divided(depth)
        if self.choose.random() < 0.2:
            some = self.of(self.choose.choice(["int", "dec"]), depth)
            return self.choose.choice(
                [f"CAST({some} AS DECIMAL(20, 6))", f"CAST({some} AS DECIMAL(38, 8))", f"-({some})"]
            )
        kinds = self.choose.choice([("dec", "dec"), ("int", "dec"), ("dec", "int")])
        return self.calculated(*(self.of(kind, depth) for kind in kinds))

    def calculated(self, left: str, right: str) -> str:
        return f"({left} {self.choose.choice('+-*')} {right})"

    def divided(self, depth: int) -> str:
        left, right = self.of("dec", depth), self.of(self.choose.choice(["dec", "int"]), depth)
        return self.choose.choice(
            [
                f"({left} / NULLIF({right}, 0))",
                f"({self.leaf('int')} / NULLIF({left}, 0.0))",
                f"({self.leaf('dec')} / NULLIF(CAST({self.leaf('int')} AS DECIMAL(20, 0)), 0))",
                f"({left} / {self.choose.choice(['7.0', '3', '-64', '0.06', 'n'])})",
                f"CAST({left} AS DECIMAL(20, 1))",
            ]
        )

    def _str(self, depth: int) -> str:
        return f"SUBSTRING({self.of('str', depth)}, {self.choose.randint(1, 3)}, {self.choose.randint(0, 3)})"

    def _date(self, depth: int) -> str:
        sign, days = self.choose.choice("+-"), self.choose.randint(0, 400)
        day, number = self.of("date", depth), self.choose.choice(["j", "3", "t"])
        forms = [f"({day} {sign} INTERVAL '{days}' DAY)", f"({day} {sign} {number})", f"date_add({day}, {number})"]
        return self.choose.choice([*forms, f"date_sub({day}, 3)"])

    def _bool(self, depth: int) -> str:
        family = self.choose.choice(list(RESULTS))
        one, two = self.of(family, depth), self.of(family, depth)
        listed = ", ".join(self.choose.choices([*LITERALS[family][:2], "NULL"], k=3))
        forms = [
            *(f"{one} {sign} {two}" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
            f"({one}) IS {self.choose.choice(['', 'NOT '])}NULL",
            f"{one} {self.choose.choice(['', 'NOT '])}BETWEEN {two} AND {self.leaf(family)}",
            f"{one} {self.choose.choice(['', 'NOT '])}IN ({LITERALS[family][0]}, {listed})",
            *[f"({self.of('bool', depth)}) {word} ({self.of('bool', depth)})" for word in ("AND", "OR")],
            f"NOT ({self.of('bool', depth)})",
            f"{self.of('str', depth)} LIKE '{self.choose.choice(PATTERNS)}'",
            f"{self.of('int', 1)} < {self.of('dec', 1)}",
            f"{one} IS DISTINCT FROM {two}",
            f"({self.of('bool', depth)}) IS {self.choose.choice(['TRUE', 'NOT FALSE'])}",
            "a >= CAST('2024-02-29T12:00:00Z' AS TIMESTAMP)",
        ]
        return f"({self.choose.choice(forms)})"


@settings(max_examples=10)
@given(st.integers(0, 1 << 30))
def test_as_the_engine_does(engine: Engine, seed: int) -> None:
    choose = random.Random(seed)
    texts = Texts(choose)
    table = rows_of([{name: choose.choice([None, *pool]) for name, pool in POOLS.items()} for _ in range(8)])
    found: list[tuple[str, str, pa.Array]] = []
    for family, result in RESULTS.items():
        for _ in range(12):
            text = headrace_sql(tree(texts.of(family)))
            run = compiled(tree(text), TYPES, result, engine.kind)
            try:
                if run is not None:
                    found.append((text, result, run(table)))
            except NotHere:
                continue
    assert len(found) > 20
    items = ", ".join(f"CAST({text} AS {result}) AS c{number}" for number, (text, result, _) in enumerate(found))
    asked = engine.arrow(engine.sql(f"SELECT {items} FROM rows_", {"rows_": engine.frame(table)}))
    for number, (text, _, mine) in enumerate(found):
        assert mine.to_pylist() == asked.column(f"c{number}").to_pylist(), text
