"""Calls evaluated over several versions of the same rows at once."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.core import column_of


def counting_only(call: exp.Expr, present: str) -> exp.Expr:
    """An aggregate that counts only rows for which the column `present` is true."""
    mark = column_of(present)
    if isinstance(call, exp.Filter):
        condition = exp.and_(call.expression.this.copy(), mark)
        return exp.Filter(this=call.this.copy(), expression=exp.Where(this=condition))
    return exp.Filter(this=call.copy(), expression=exp.Where(this=mark))


def apart_by(call: exp.Expr, version: str) -> exp.Expr:
    """A window function whose partitions are also told apart by the column `version`."""
    copy = call.copy()
    for window in copy.find_all(exp.Window):
        window.set("partition_by", [*(window.args.get("partition_by") or []), column_of(version)])
    return copy
