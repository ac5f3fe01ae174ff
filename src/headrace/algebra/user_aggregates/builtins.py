"""SQL's own aggregates, written in ESL themselves: what a call of theirs over a stream's windows is compiled from.

NULLs are left out, as SQL does. Sums of floating-point numbers carry what rounding lost (Neumaier), so that rows that
leave a window take with them what they brought; what is not finite is counted, since it could not be taken out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from headrace.algebra.user_aggregates.definition import Definition, Versions, definition_of
from headrace.algebra.user_aggregates.values import NUMBERS, kind_of
from headrace.language import CreateAggregate, parse_one

_SYNONYMS = {"mean": "avg", "stddev_samp": "stddev", "std": "stddev", "var_samp": "variance", "any_value": "first"}
_SYNONYMS |= {"first_value": "first", "last_value": "last"}

NAMES = ("avg", "count", "first", "last", "max", "min", "stddev", "sum", "variance")


def builtin(name: str, argument_types: Sequence[str]) -> Versions | None:
    """The versions of one of SQL's aggregates for arguments of these types; None where there is none."""
    name = _SYNONYMS.get(name.lower(), name.lower())
    if name not in NAMES or len(argument_types) > 1 or (not argument_types and name != "count"):
        return None
    return _versions(name, argument_types[0] if argument_types else None)


@lru_cache(maxsize=256)
def _versions(name: str, type_: str | None) -> Versions | None:
    if name == "count":
        return _both(name, *_count(type_))
    assert type_ is not None
    kind = kind_of(type_)
    if name in ("min", "max"):
        return None if kind == "other" else _both(name, *_extreme(name, type_))
    if name in ("first", "last"):
        return _both(name, *_end(name, type_))
    if kind not in NUMBERS:
        return None
    if name in ("stddev", "variance"):
        return Versions(name, base=_parsed(_spread(name, type_)))
    return _both(name, *(_real(name, type_) if kind == "float" else _exact(name, type_)))


def _both(name: str, base: str, window: str) -> Versions:
    return Versions(name, _parsed(base), _parsed(window))


def _parsed(text: str) -> Definition:
    statement = parse_one(text)
    assert isinstance(statement, CreateAggregate)
    return definition_of(statement)


def _count(type_: str | None) -> tuple[str, str]:
    parameter, window, one, gone = ("", "", "1", "1")
    if type_ is not None:
        parameter, window = f"x {type_}", f"TABLE inwindow(wx {type_});"
        one, gone = "CASE WHEN x IS NULL THEN 0 ELSE 1 END", "CASE WHEN oldest() IS NULL THEN 0 ELSE 1 END"
    base = f"""CREATE AGGREGATE count({parameter}) : BIGINT {{
        TABLE state(n BIGINT);
        INITIALIZE: {{ INSERT INTO state VALUES ({one}); }}
        ITERATE: {{ UPDATE state SET n = n + {one}; }}
        TERMINATE: {{ INSERT INTO RETURN SELECT n FROM state; }} }}"""
    over = f"""CREATE WINDOW AGGREGATE count({parameter}) : BIGINT {{
        TABLE state(n BIGINT); {window}
        INITIALIZE: {{ INSERT INTO state VALUES ({one}); INSERT INTO RETURN SELECT n FROM state; }}
        ITERATE: {{ UPDATE state SET n = n + {one}; INSERT INTO RETURN SELECT n FROM state; }}
        EXPIRE: {{ UPDATE state SET n = n - {gone}; INSERT INTO RETURN SELECT n FROM state; }} }}"""
    return base, over


def _extreme(name: str, type_: str) -> tuple[str, str]:
    """ESL Examples 13 and 16: rows that no later window can need are deleted at once, so the oldest is the best."""
    worse, left = ("wx <= x", "wx < oldest()") if name == "max" else ("wx >= x", "wx > oldest()")
    if kind_of(type_) == "float":  # NaN is larger than all others, and equal to itself
        worse += " OR x <> x" if name == "max" else " OR wx <> wx"
        left += " OR (oldest() <> oldest() AND wx = wx)" if name == "max" else " OR (wx <> wx AND oldest() = oldest())"
    pick = "greatest" if name == "max" else "least"
    base = f"""CREATE ALGEBRAIC AGGREGATE {name}(x {type_}) : {type_} {{
        TABLE state(best {type_});
        INITIALIZE: {{ INSERT INTO state VALUES (x); }}
        ITERATE: {{ UPDATE state SET best = {pick}(best, x); }}
        TERMINATE: {{ INSERT INTO RETURN SELECT best FROM state; }} }}"""
    over = f"""CREATE ALGEBRAIC WINDOW AGGREGATE {name}(x {type_}) : {type_} {{
        TABLE inwindow(wx {type_});
        INITIALIZE: ITERATE: {{
            DELETE FROM inwindow WHERE {worse};
            DELETE FROM inwindow WHERE wx IS NULL;
            INSERT INTO RETURN VALUES (oldest()); }}
        EXPIRE: {{ INSERT INTO RETURN SELECT {name}(wx) FROM inwindow WHERE {left}; }} }}"""
    return base, over


def _end(name: str, type_: str) -> tuple[str, str]:
    keep = "" if name == "first" else "UPDATE state SET kept = x;"
    shown = "oldest()" if name == "first" else "x"
    base = f"""CREATE ALGEBRAIC AGGREGATE {name}(x {type_}) : {type_} {{
        TABLE state(kept {type_});
        INITIALIZE: {{ INSERT INTO state VALUES (x); }}
        ITERATE: {{ {keep} }}
        TERMINATE: {{ INSERT INTO RETURN SELECT kept FROM state; }} }}"""
    over = f"""CREATE ALGEBRAIC WINDOW AGGREGATE {name}(x {type_}) : {type_} {{
        TABLE inwindow(wx {type_});
        INITIALIZE: ITERATE: {{ INSERT INTO RETURN VALUES ({shown}); }} EXPIRE: {{ }} }}"""
    return base, over


def _spread(name: str, type_: str) -> str:
    """Welford's way: the mean and the squared distances from it, without large numbers that cancel."""
    shown = "CASE WHEN n > 1 THEN m2 / (n - 1) END"
    shown = f"sqrt({shown})" if name == "stddev" else shown
    return f"""CREATE AGGREGATE {name}(x {type_}) : DOUBLE {{
        TABLE state(n BIGINT, mean DOUBLE, m2 DOUBLE);
        INITIALIZE: {{ INSERT INTO state SELECT CASE WHEN x IS NULL THEN 0 ELSE 1 END, coalesce(x, 0), 0; }}
        ITERATE: {{
            UPDATE state SET n = n + 1, mean = mean + (x - mean) / (n + 1),
                m2 = m2 + (x - mean) * (x - (mean + (x - mean) / (n + 1))) WHERE x IS NOT NULL; }}
        TERMINATE: {{ INSERT INTO RETURN SELECT {shown} FROM state; }} }}"""


def _exact(name: str, type_: str) -> tuple[str, str]:
    kept, returned = "BIGINT", "BIGINT" if name == "sum" else "DOUBLE"
    if kind_of(type_) == "decimal":
        precision, scale = (int(part) for part in type_[len("DECIMAL(") : -1].split(","))
        kept = returned = f"DECIMAL({min(38, precision + 10)},{scale})"
        if name == "avg":
            returned = f"DECIMAL({min(38, precision + 4)},{min(scale + 4, 37)})"
    begin = "INSERT INTO state VALUES (coalesce(x, 0), CASE WHEN x IS NULL THEN 0 ELSE 1 END);"
    step = "UPDATE state SET s = s + x, n = n + 1 WHERE x IS NOT NULL;"
    back = "UPDATE state SET s = s - oldest(), n = n - 1 WHERE oldest() IS NOT NULL;"
    tell = f"INSERT INTO RETURN SELECT CASE WHEN n > 0 THEN {'s' if name == 'sum' else 's / n'} END FROM state;"
    return _written(name, type_, returned, f"state(s {kept}, n BIGINT)", begin, step, back, tell)


def _real(name: str, type_: str) -> tuple[str, str]:
    state = "state(s DOUBLE, c DOUBLE, n BIGINT, nans BIGINT, ups BIGINT, downs BIGINT)"
    begin = "INSERT INTO state VALUES (0, 0, 0, 0, 0, 0);"
    total = "CASE WHEN nans > 0 OR (ups > 0 AND downs > 0) THEN 1e308 * 10 - 1e308 * 10"
    total += " WHEN ups > 0 THEN 1e308 * 10 WHEN downs > 0 THEN -1e308 * 10 ELSE s + c END"
    shown = total if name == "sum" else f"({total}) / n"
    tell = f"INSERT INTO RETURN SELECT CASE WHEN n > 0 THEN {shown} END FROM state;"
    step = _moved("x", "+")
    return _written(name, type_, "DOUBLE", state, begin + step, step, _moved("oldest()", "-"), tell)


def _moved(value: str, sign: str) -> str:
    """A value added to the sum or taken from it."""
    added = value if sign == "+" else f"(-{value})"
    lost = f"CASE WHEN abs(s) >= abs({added}) THEN (s - (s + {added})) + {added} ELSE ({added} - (s + {added})) + s END"
    return (
        f"UPDATE state SET c = c + {lost}, s = s + {added}, n = n {sign} 1 WHERE {value} - {value} = 0;"
        f"UPDATE state SET n = n {sign} 1, nans = nans {sign} 1 WHERE {value} <> {value};"
        f"UPDATE state SET n = n {sign} 1, ups = ups {sign} 1 WHERE {value} - {value} <> 0 AND {value} > 0;"
        f"UPDATE state SET n = n {sign} 1, downs = downs {sign} 1 WHERE {value} - {value} <> 0 AND {value} < 0;"
    )


def _written(
    name: str, type_: str, returned: str, state: str, begin: str, step: str, back: str, tell: str
) -> tuple[str, str]:
    # A sum of sums is the sum; an average of averages is not the average.
    algebraic = "ALGEBRAIC " if name == "sum" else ""
    base = f"""CREATE {algebraic}AGGREGATE {name}(x {type_}) : {returned} {{
        TABLE {state};
        INITIALIZE: {{ {begin} }} ITERATE: {{ {step} }} TERMINATE: {{ {tell} }} }}"""
    over = f"""CREATE {algebraic}WINDOW AGGREGATE {name}(x {type_}) : {returned} {{
        TABLE {state}; TABLE inwindow(wx {type_});
        INITIALIZE: {{ {begin} {tell} }} ITERATE: {{ {step} {tell} }} EXPIRE: {{ {back} {tell} }} }}"""
    return base, over
