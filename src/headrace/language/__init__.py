"""Text to statements and back: the Headrace language, a dialect on top of Spark's SQL.

Nothing here knows Spark as a program. `parse` gives statements; a statement's `sql()` gives text that parses to an
equal one; a `Query` tells which relations it reads and prints itself as Spark SQL over other names.
"""

from headrace.language.aggregates import AggregateTable, CreateAggregate, LoadAggregates
from headrace.language.changes import Delete, Insert, InsertRow, Merge, MergeClause, Update
from headrace.language.commands import (
    AdvanceClock,
    Alter,
    Describe,
    Drop,
    Expect,
    Explain,
    ExplainCreate,
    Refresh,
    Select,
    Show,
)
from headrace.language.foreign_keys import ForeignKey
from headrace.language.parts import PartRange, Subscript
from headrace.language.printing import FrozenMap, Options, quote_name, quote_string
from headrace.language.query import Query, Scalar
from headrace.language.relations import AsOf, RelationRef
from headrace.language.script import parse, parse_one
from headrace.language.shape import Projection, QueryShape, Source
from headrace.language.sources import Connector, RegisterSource
from headrace.language.statement import Column, Statement
from headrace.language.streams import CreateStream
from headrace.language.tables import CreateTable
from headrace.language.times import format_duration, format_seconds, format_time, parse_duration, parse_time
from headrace.language.types import arrow_type, ddl_type, normalise_type
from headrace.language.views import CreateView, CreateViewDelta, CreateViews, RefreshPolicy, Trigger
from headrace.language.windows import Window

__all__ = [
    "AdvanceClock",
    "AggregateTable",
    "Alter",
    "AsOf",
    "Column",
    "Connector",
    "CreateAggregate",
    "CreateStream",
    "CreateTable",
    "CreateView",
    "CreateViewDelta",
    "CreateViews",
    "Delete",
    "Describe",
    "Drop",
    "Expect",
    "Explain",
    "ExplainCreate",
    "ForeignKey",
    "FrozenMap",
    "Insert",
    "InsertRow",
    "LoadAggregates",
    "Merge",
    "MergeClause",
    "Options",
    "PartRange",
    "Projection",
    "Query",
    "QueryShape",
    "Refresh",
    "RefreshPolicy",
    "RegisterSource",
    "RelationRef",
    "Scalar",
    "Select",
    "Show",
    "Source",
    "Statement",
    "Subscript",
    "Trigger",
    "Update",
    "Window",
    "arrow_type",
    "ddl_type",
    "format_duration",
    "format_seconds",
    "format_time",
    "normalise_type",
    "parse",
    "parse_duration",
    "parse_one",
    "parse_time",
    "quote_name",
    "quote_string",
]
