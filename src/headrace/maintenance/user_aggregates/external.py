"""The methods of a class in Python, called with values as Python has them, and what they give as programs hold it.

NULL is None. A TIMESTAMP is a datetime in UTC, a TIMESTAMP_NTZ one without a zone, an interval a timedelta. Whatever
goes wrong inside a method is told with the aggregate, the method and its arguments.
"""

from __future__ import annotations

import operator
import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from types import GeneratorType
from typing import Any, overload

import numpy as np
import pyarrow as pa

from headrace.algebra.user_aggregates.classes import written
from headrace.algebra.user_aggregates.values import DEFAULTS, WORDS, kind_of
from headrace.errors import EngineError
from headrace.language.types import arrow_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL = datetime(1970, 1, 1)
_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MOST = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}
_SHOWN = 300

Convert = Callable[[Any], Any]


class Rows(Sequence[tuple[Any, ...]]):
    """The rows now in the window, the oldest first: made when they are looked at."""

    def __init__(self, values: Sequence[Any], nulls: Sequence[Any], first: int, last: int, into: list[Any]) -> None:
        self._values, self._nulls, self._first, self._last, self._into = values, nulls, first, last, into

    def __len__(self) -> int:
        return self._last - self._first

    @overload
    def __getitem__(self, place: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, place: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self._row(self._first + at) for at in range(*place.indices(len(self)))]
        at = operator.index(place)
        if not -len(self) <= at < len(self):
            raise IndexError("the window has no such row")
        return self._row((self._last if at < 0 else self._first) + at)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self._row(at) for at in range(self._first, self._last))

    def __repr__(self) -> str:
        return repr(list(self))

    def _row(self, at: int) -> tuple[Any, ...]:
        return tuple(
            None if nulls is not None and nulls[at] else values[at] if into is None else into(values[at])
            for values, nulls, into in zip(self._values, self._nulls, self._into, strict=True)
        )


class External:
    """One version of an aggregate that is a class, for the types of one call."""

    def __init__(
        self, reference: str, name: str, window: bool, parameters: Sequence[tuple[str, str]], returns: Sequence[str]
    ) -> None:
        """`parameters` are names and types, `returns` types."""
        self.written = written(reference, window=window)
        self._name, self._returns = name, tuple(returns)
        self._into = [_into(type_) for _name, type_ in parameters]
        self._as_they_are = not any(self._into)
        self._out = [_out(type_) for type_ in returns]
        self._given = pa.schema([(name, arrow_type(type_)) for name, type_ in parameters])

    # --- Objects -------------------------------------------------------------------------------------------------

    def new(self) -> Any:
        try:
            return self.written.kind()
        except Exception as error:
            raise self._failed("__init__", (), error) from error

    def kept(self, held: Any) -> bytes:
        """An object's state, without its class: that is looked up, and may have moved."""
        try:
            return pickle.dumps(held.__getstate__(), protocol=5)
        except Exception as error:
            raise self._failed("__getstate__", (), error, "Its state cannot be kept.") from error

    def restored(self, data: bytes) -> Any:
        kind = self.written.kind
        try:
            held: Any = object.__new__(kind)
            state = pickle.loads(data)
            if hasattr(held, "__setstate__"):
                held.__setstate__(state)
                return held
            plain, slots = state if isinstance(state, tuple) else (state, None)
            for name, value in {**(plain or {}), **(slots or {})}.items():
                setattr(held, name, value)
            return held
        except Exception as error:
            raise self._failed("__setstate__", (), error, "Its state cannot be taken up again.") from error

    # --- Rows ----------------------------------------------------------------------------------------------------

    def called(
        self, held: Any, method: str, cells: tuple[Any, ...], values: Sequence[Any] = (), nulls: Sequence[Any] = (),
        first: int = 0, last: int = 0,
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        """The rows that a method gives, each as a value and whether it is NULL, column by column.

        `values` and `nulls` are the columns of the window, whose rows lie between `first` and `last`.
        """
        given = cells if self._as_they_are else self._converted(cells)
        rows = Rows(values, nulls, first, last, self._into) if self.written.needs_window else None
        try:
            if method == "step":
                return self._of_batch(self.stepped(held, self._batch([given])))
            if method == "step_window":
                assert rows is not None
                ends = np.array([0]), np.array([len(rows) - 1])
                return self._of_batch(self.stepped_windows(held, self._batch(list(rows)), *ends))
            if rows is None:
                return self._rows(getattr(held, method)(*given))
            held.inwindow = rows
            try:
                return self._rows(getattr(held, method)(*given))
            finally:
                del held.inwindow
        except EngineError:
            raise
        except Exception as error:
            raise self._failed(method, given, error) from error

    def _converted(self, cells: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            cell if into is None or cell is None else into(cell) for cell, into in zip(cells, self._into, strict=False)
        )

    def _rows(self, given: Any) -> list[tuple[Any, ...]]:
        if given is None:
            return []
        if isinstance(given, list | GeneratorType):
            return [self._row(one) for one in given]
        return [self._row(given)]

    def _row(self, given: Any) -> tuple[Any, ...]:
        cells = given if isinstance(given, tuple) else (given,)
        if len(cells) != len(self._out):
            raise ValueError(f"it gave {len(cells)} values where it returns {len(self._out)} columns: {given!r}")
        found: list[Any] = []
        for cell, out, type_ in zip(cells, self._out, self._returns, strict=True):
            found += (_NOTHING[kind_of(type_)], True) if cell is None else (out(cell), False)
        return tuple(found)

    def _batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(self._given)]
        return _record_batch(columns, self._given, len(rows))

    def _of_batch(self, columns: list[pa.Array] | None) -> list[tuple[Any, ...]]:
        if columns is None:
            return []
        return [self._row(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]

    # --- Batches -------------------------------------------------------------------------------------------------

    def batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Columns of arguments as a batch."""
        cast = [column.cast(field.type) for column, field in zip(columns, self._given, strict=True)]
        return _record_batch(cast, self._given, len(columns[0]) if columns else 0)

    def stepped(self, held: Any, batch: pa.RecordBatch) -> list[pa.Array] | None:
        """What `step` gives for a batch: a result for each row, or none at all."""
        try:
            return self._columns(held.step(batch), batch.num_rows, "rows")
        except Exception as error:
            raise self._failed("step", batch.slice(0, 3).to_pylist(), error) from error

    def stepped_windows(
        self, held: Any, batch: pa.RecordBatch, first: np.ndarray, last: np.ndarray
    ) -> list[pa.Array] | None:
        """What `step_window` gives for some windows: a result for each, or none at all."""
        try:
            return self._columns(held.step_window(batch, first, last), len(first), "windows")
        except Exception as error:
            raise self._failed("step_window", batch.slice(0, 3).to_pylist(), error) from error

    def _columns(self, given: Any, count: int, what: str) -> list[pa.Array] | None:
        if given is None:
            return None
        if isinstance(given, pa.RecordBatch | pa.Table):
            parts: list[Any] = list(given.columns)
        else:
            parts = list(given) if isinstance(given, tuple) else [given]
        if len(parts) != len(self._returns):
            raise ValueError(f"it gave {len(parts)} columns where it returns {len(self._returns)}")
        found = []
        for part, type_ in zip(parts, self._returns, strict=True):
            array = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
            array = array if isinstance(array, pa.Array) else pa.array(array)
            if len(array) != count:
                raise ValueError(f"it gave {len(array)} results for {count} {what}")
            found.append(array.cast(arrow_type(type_)))
        return found

    def _failed(self, method: str, given: Sequence[Any], error: Exception, what: str = "") -> EngineError:
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if one.filename != __file__]
        where = f" in line {own[-1].lineno} of {own[-1].filename}" if own else ""
        shown = ", ".join(map(repr, given))
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        return EngineError(
            "AGGREGATE_FAILED",
            f"{method}({shown}) of the aggregate {self._name} failed: {type(error).__name__}: {error}",
            detail=f"{what} The class is {self.written.reference}; it failed{where}.".strip(),
            hint="Nothing was changed. Correct the class, and start a new session so that it is imported again.",
        )


def _record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


_NOTHING = {kind: eval(text, {"_ZERO": Decimal(0)}) for kind, text in DEFAULTS.items()}


def _into(type_: str) -> Convert | None:
    """How a value of a program is handed to Python; None where it is so already."""
    if type_ == "TIMESTAMP_NTZ":
        return lambda value: _LOCAL + timedelta(microseconds=value)
    return {
        "time": lambda value: _EPOCH + timedelta(microseconds=value),
        "date": lambda value: _DAY + timedelta(days=value),
        "span": lambda value: timedelta(microseconds=value),
    }.get(kind_of(type_))


def _out(type_: str) -> Convert:
    """How a value that Python gave is held by a program; refused where it does not fit the type."""
    kind = kind_of(type_)

    def refuse(value: Any) -> TypeError:
        return TypeError(f"it gave {value!r}, which is not {WORDS[kind]} ({type_})")

    def number(value: Any) -> int:
        is_number = isinstance(value, float | Decimal) or hasattr(value, "__index__")
        if not is_number or (isinstance(value, float | Decimal) and value != int(value)):
            raise refuse(value)
        found = int(value) if isinstance(value, float | Decimal) else operator.index(value)
        if not -_MOST[type_] <= found < _MOST[type_]:
            raise OverflowError(f"{found} does not fit into {type_}")
        return found

    def real(value: Any) -> float:
        if isinstance(value, str | bytes):
            raise refuse(value)
        return float(np.float32(value)) if type_ == "FLOAT" else float(value)

    def point(value: Any) -> int:
        if not isinstance(value, datetime):
            raise refuse(value)
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).__sub__(_EPOCH) // _MICROSECOND

    def day(value: Any) -> int:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise refuse(value)
        return (value - _DAY).days

    def span(value: Any) -> int:
        if not isinstance(value, timedelta):
            raise refuse(value)
        return value // _MICROSECOND

    def exact(value: Any) -> Decimal:
        if isinstance(value, str | bytes):
            raise refuse(value)
        scale = int(type_[len("DECIMAL(") : -1].split(",")[1])
        found = value if isinstance(value, Decimal) else Decimal(str(value))
        return found.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)

    def of(*kinds: type) -> Convert:
        def plain(value: Any) -> Any:
            if not isinstance(value, kinds):
                raise refuse(value)
            return kinds[0](value)

        return plain

    def nested(value: Any) -> Any:
        return pa.scalar(value, arrow_type(type_)).as_py()

    found: dict[str, Convert] = {
        "int": number, "float": real, "bool": of(bool, np.bool_), "time": point, "date": day, "span": span,
        "text": of(str), "decimal": exact, "bytes": of(bytes, bytearray, memoryview),
    }  # fmt: skip
    return found.get(kind, nested)
