"""Whatever statement can be built prints to text that parses to an equal statement."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.language import (
    AdvanceClock,
    AggregateTable,
    Alter,
    Column,
    Connector,
    CreateAggregate,
    CreateStream,
    CreateTable,
    CreateView,
    CreateViewDelta,
    Delete,
    Describe,
    Drop,
    Expect,
    Explain,
    ExplainCreate,
    ForeignKey,
    FrozenMap,
    Insert,
    InsertRow,
    LoadAggregates,
    Merge,
    MergeClause,
    Options,
    Query,
    Refresh,
    RefreshPolicy,
    RegisterSource,
    Scalar,
    Select,
    Show,
    Statement,
    Trigger,
    Update,
    normalise_type,
    parse_one,
)
from headrace.language.commands import EXPLAINS, OBJECTS, SHOWS
from headrace.language.printing import quote_name, quote_string

plain_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,7}", fullmatch=True)
odd_names = st.sampled_from(
    [
        "select",
        "a b",
        "1x",
        "a`b",
        "über",
        "from",
        "a.b",
        "x-y",
        "key",
        "refresh",
        "VIEW",
        "state",
        "R",
        "now",
        "null",
        "extended",
        "order by",
        "[i]",
        "--",
        "at",
        "port5501",
        "true",
        "interval",
        "ROWS",
        "streamed",
        "date",
        "100",
    ]
)
names = st.one_of(plain_names, odd_names)
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8),
    st.sampled_from(["it's", "a\\b", 'say "x"', "line\nbreak", "port5501", "--", "/*", "`", "%_", "a;b"]),
)
micros = st.one_of(st.integers(0, 10**6).map(lambda n: n * 10**6), st.integers(0, 2 * 10**15))
points = st.one_of(micros, st.integers(-(10**12), -1))
whole_seconds = st.integers(1, 10**7)
name_lists = st.lists(names, min_size=1, max_size=3, unique_by=str.lower).map(tuple)
numbers = st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x != int(x)))
options = st.dictionaries(
    st.one_of(plain_names, odd_names).map(str.lower), st.one_of(texts, numbers, st.booleans()), max_size=3
).map(Options)
stream_options = options.map(lambda given: Options({k: v for k, v in given.items() if k not in ("slack", "late")}))
simple_types = [
    "INT",
    "BIGINT",
    "STRING",
    "DOUBLE",
    "FLOAT",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "BINARY",
    "TINYINT",
    "SMALLINT",
    "DECIMAL(10,2)",
    "DECIMAL(38,0)",
    "INTERVAL DAY TO SECOND",
]
types = st.recursive(
    st.sampled_from(simple_types),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"MAP<{pair[0]}, {pair[1]}>"),
        st.tuples(plain_names, inner).map(lambda pair: f"STRUCT<{pair[0]}: {pair[1]}, `a b`: INT>"),
    ),
    max_leaves=3,
)
columns = st.builds(Column, names, types, st.booleans())
column_lists = st.lists(columns, min_size=1, max_size=3, unique_by=lambda c: c.name.lower()).map(tuple)


def scalar(text: str) -> Scalar:
    statement = parse_one(f"DELETE FROM t WHERE {text}")
    assert isinstance(statement, Delete)
    assert statement.where is not None
    return statement.where


scalars = st.one_of(
    st.integers(-99, 99).map(str),
    texts.map(quote_string),
    names.map(quote_name),
    st.sampled_from(
        [
            "NULL",
            "TRUE",
            "a + 1 > 2",
            "DATE '2020-01-01'",
            "x IN (SELECT b FROM u)",
            "f(a, -1.5)",
            "1e3",
            "a AND NOT b OR c IS NULL",
            "TIMESTAMP '2020-01-01 10:00'",
            "CASE WHEN a THEN 1 ELSE 2 END",
            "Now - 5 < ts <= Now",
            "a mod 2 = 0",
            "INTERVAL 5 MINUTES",
            "x[0]",
            "m.f['k']",
            "10L",
        ]
    ),
).map(scalar)

relations = st.builds(
    "{}{}{}".format,
    names.map(quote_name),
    st.sampled_from(
        [
            "",
            " [RANGE 1 MINUTE SLIDE 10 SECONDS INTERNAL]",
            " [ROWS 100 SLIDE 10]",
            " [PARTITION BY k ROWS 5]",
            " [WINDOW 10 min SLIDE 2 min]",
            " SYNC y",
            " [i]",
            " [i-3..i]",
            " [i*60-59 .. i*60]",
            " PATTERN [a, b, c+]",
            " PATTERN [a, b+] WITHIN 10 MINUTES",
            " AS OF 3",
            " AS OF SNAPSHOT 7",
            " AS OF '2024-01-01 10:00'",
        ]
    ),
    st.one_of(st.just(""), names.map(lambda name: f" AS {quote_name(name)}")),
)
selections = st.sampled_from(
    [
        "*",
        "a, b AS c",
        "count(*) AS n, sum(x) s",
        "DISTINCT a",
        "Istream(*)",
        "Wstream(*)[ROWS 10]",
        "Rstream-restore(*)",
        "sum(p) OVER (PARTITION BY k ROWS 49 PRECEDING SLIDE 10) AS m",
        "t.*",
        "a.b.c, x[1], 'q'",
        "Now",
        "f(x) OVER (RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)",
    ]
)
join_tails = st.sampled_from(["", " WHERE a > 10", " GROUP BY k ORDER BY k LIMIT 3", " ORDER BY 1"])
tails = st.sampled_from(
    [
        "",
        " WHERE a > 10",
        " WHERE a IN (SELECT b FROM w) GROUP BY k HAVING count(*) > 1",
        " GROUP BY k ORDER BY k LIMIT 3",
        " WHERE PART_TIMESTAMP = '2015/01/01 0:00'",
    ]
)
selects = st.builds("SELECT {} FROM {}{}".format, selections, relations, tails)
query_texts = st.one_of(
    selects,
    st.builds("SELECT x.a FROM {} JOIN {} ON x.a = y.a{}".format, relations, relations, join_tails),
    st.builds("WITH q AS ({}) SELECT * FROM q".format, selects),
    st.builds("SELECT * FROM ({}) AS s LEFT JOIN CHANGES(v) USING (a)".format, selects),
    st.just("SELECT a FROM t UNION ALL SELECT b FROM u"),
    st.just("VALUES (1, 'a'), (2, 'b')"),
)


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


queries = query_texts.map(query)

connectors = st.one_of(
    st.just(Connector("MEMORY")),
    st.builds(
        lambda g, f: Connector("FILES", FrozenMap({"glob": g, "format": f})),
        texts,
        st.sampled_from(["json", "csv", "parquet"]),
    ),
    st.integers(1, 65535).map(lambda n: Connector("PORT", FrozenMap({"port": n}))),
    st.builds(
        lambda n, h: Connector("PORT", FrozenMap({"port": n, "host": h, "format": "csv"})), st.integers(1, 65535), texts
    ),
    st.integers(1, 10**6).map(lambda n: Connector("RATE", FrozenMap({"rows_per_second": n}))),
    st.builds(lambda f, o: Connector("STREAMING", FrozenMap({"format": f, "options": o})), texts, options),
    st.builds(lambda k, o: Connector(k, FrozenMap({"options": o})), st.sampled_from(["KAFKA", "POSTGRES"]), options),
)
maybe = st.none()
enforcements = st.sampled_from([None, "ENFORCED", "NOT ENFORCED", "RELY"])
foreign_keys = st.builds(ForeignKey, name_lists, names, st.one_of(st.just(()), name_lists), enforcements)


@st.composite
def streams_with_columns(draw: st.DrawFn) -> CreateStream:
    declared = draw(column_lists)
    own = st.lists(st.sampled_from([c.name for c in declared]), min_size=1, max_size=2, unique=True).map(tuple)
    foreign = st.builds(ForeignKey, own, names, st.one_of(st.just(()), name_lists), enforcements)
    return draw(
        st.builds(
            CreateStream,
            name=names,
            columns=st.just(declared),
            key=st.one_of(maybe, own),
            foreign_keys=st.lists(foreign, max_size=2).map(tuple),
            source=st.one_of(maybe, connectors),
            order_by=names,
        )
    )


streams = st.one_of(
    st.builds(
        CreateStream,
        name=names,
        over=names,
        key=st.one_of(maybe, st.just(()), name_lists),
        foreign_keys=st.lists(foreign_keys, max_size=2).map(tuple),
        order_by=st.one_of(maybe, names),
        slack=st.one_of(maybe, micros),
        late=st.sampled_from([None, "DIVERT", "DROP", "MERGE"]),
        partition_length=st.one_of(maybe, whole_seconds),
        retain=st.one_of(maybe, micros),
        options=stream_options,
        if_not_exists=st.booleans(),
    ),
    streams_with_columns(),
    st.builds(
        CreateStream,
        name=names,
        columns=st.one_of(maybe, name_lists.map(lambda ns: tuple(Column(n, "") for n in ns))),
        query=queries,
        key=st.one_of(maybe, name_lists),
        retain=st.one_of(maybe, micros),
        options=stream_options,
    ),
)


@st.composite
def tables(draw: st.DrawFn) -> CreateTable:
    declared = draw(column_lists)
    own = st.lists(st.sampled_from([c.name for c in declared]), min_size=1, max_size=2, unique=True).map(tuple)
    foreign = st.builds(ForeignKey, own, names, st.one_of(st.just(()), name_lists), enforcements)
    return draw(
        st.builds(
            CreateTable,
            name=names,
            columns=st.just(declared),
            key=st.one_of(st.just(()), own),
            foreign_keys=st.lists(foreign, max_size=2).map(tuple),
            retroactive=st.booleans(),
            query=st.one_of(maybe, queries),
            options=options,
            if_not_exists=st.booleans(),
            partition_length=st.one_of(maybe, whole_seconds),
            retain=st.one_of(maybe, micros),
        )
    )


rows = st.builds(InsertRow, st.tuples(scalars, scalars), st.one_of(maybe, points))
assignments = st.lists(st.tuples(names, scalars), min_size=1, max_size=2).map(tuple)
conditions = st.one_of(maybe, scalars)
changes = st.one_of(
    st.builds(
        Insert,
        table=names,
        columns=st.one_of(maybe, st.just(("a", "b c"))),
        rows=st.lists(rows, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(
        Insert, table=names, columns=st.one_of(maybe, name_lists), query=selects.map(query), at=st.one_of(maybe, points)
    ),
    st.builds(
        Update,
        table=names,
        alias=st.one_of(maybe, names),
        assignments=assignments,
        where=conditions,
        at=st.one_of(maybe, points),
    ),
    st.builds(Delete, table=names, alias=st.one_of(maybe, names), where=conditions, at=st.one_of(maybe, points)),
    st.builds(
        Merge,
        target=names,
        target_alias=st.one_of(maybe, names),
        source=st.one_of(names, queries),
        source_alias=st.one_of(maybe, names),
        on=scalars,
        at=st.one_of(maybe, points),
        clauses=st.lists(
            st.one_of(
                st.builds(
                    MergeClause, st.sampled_from(["matched", "not matched by source"]), st.just("delete"), conditions
                ),
                st.builds(MergeClause, st.just("matched"), st.just("update"), conditions, assignments),
                st.builds(MergeClause, st.just("matched"), st.just("update"), conditions, star=st.just(True)),
                st.builds(MergeClause, st.just("not matched"), st.just("insert"), conditions, star=st.just(True)),
                st.builds(
                    MergeClause,
                    st.just("not matched"),
                    st.just("insert"),
                    conditions,
                    columns=st.one_of(st.just(()), st.just(("a", "b c"))),
                    values=st.tuples(scalars, scalars),
                ),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    ),
)
triggers = st.one_of(
    st.integers(1, 10**12).map(lambda n: Trigger("every", every=n)),
    st.integers(1, 10**9).map(lambda n: Trigger("after", rows=n)),
    names.map(lambda n: Trigger("on", stream=n)),
    st.just(Trigger("demand")),
)
policies = st.builds(
    RefreshPolicy,
    st.lists(triggers, min_size=1, max_size=3).map(tuple),
    st.sampled_from([None, "AUTO", "INCREMENTAL", "INCREMENTAL STRICT", "FULL"]),
)
views = st.one_of(
    st.builds(
        CreateView,
        name=names,
        query=queries,
        output=st.sampled_from([None, "STREAMED", "COMPLETE"]),
        columns=st.one_of(maybe, name_lists),
        sync_by=st.one_of(maybe, names),
        refresh=st.one_of(maybe, policies),
        partition_length=st.one_of(maybe, whole_seconds),
        retain=st.one_of(maybe, micros),
        options=options,
        or_replace=st.booleans(),
        if_not_exists=st.booleans(),
        materialized=st.booleans(),
    ),
    st.builds(
        CreateViewDelta,
        name=names,
        initialize=queries,
        initialize_index=names,
        update=queries,
        update_index=names,
        partition_length=whole_seconds,
        retain=st.one_of(maybe, micros),
        options=options,
        or_replace=st.booleans(),
        if_not_exists=st.booleans(),
    ),
)
bodies = st.lists(
    st.sampled_from(
        [
            "INSERT INTO state VALUES (Next, 1)",
            "UPDATE state SET cnt=cnt+1",
            "DELETE FROM inwindow WHERE a <= 'x;y'",
            "INSERT INTO RETURN SELECT tsum/cnt FROM state",
        ]
    ),
    max_size=2,
).map(tuple)
aggregates = st.one_of(
    st.builds(
        CreateAggregate,
        name=names,
        parameters=column_lists,
        returns=st.one_of(types, column_lists),
        algebraic=st.booleans(),
        window=st.booleans(),
        or_replace=st.booleans(),
        tables=st.lists(st.builds(AggregateTable, names, column_lists), max_size=2).map(tuple),
        blocks=st.builds(lambda i, x: FrozenMap({"INITIALIZE": i, "ITERATE": i, "EXPIRE": x}), bodies, bodies),
    ),
    st.builds(CreateAggregate, name=names, parameters=column_lists, returns=types, external=texts),
    st.builds(LoadAggregates, names=st.lists(names, max_size=3).map(tuple)),
)
selected = st.builds(
    lambda q, output: Select(query=Query(q.tree, output) if not q.sql().startswith("VALUES") else q),
    queries,
    st.sampled_from([None, "STREAMED", "COMPLETE"]),
)
commands = st.one_of(
    selected,
    st.builds(Refresh, view=st.one_of(maybe, names)),
    st.builds(AdvanceClock, to=points),
    st.builds(Explain, kind=st.sampled_from([None, *EXPLAINS]), target=names),
    st.builds(Explain, kind=st.sampled_from([None, *EXPLAINS]), statement=st.one_of(selected, changes)),
    st.builds(Explain, kind=st.sampled_from(EXPLAINS), statement=views),
    st.builds(ExplainCreate, statement=views.filter(lambda view: isinstance(view, CreateView))),
    st.builds(Expect, rows=st.integers(0, 10**9), table=names),
    st.builds(Show, what=st.sampled_from(SHOWS), target=names),
    st.builds(Show, what=st.sampled_from([what for what in SHOWS if what != "PARTS"])),
    st.builds(Describe, name=names, extended=st.booleans()),
    st.builds(Alter, kind=st.sampled_from(OBJECTS), name=names, settings=options.filter(bool)),
    st.builds(Alter, kind=st.sampled_from(["HOME", "CLOCK"]), settings=options.filter(bool)),
    st.builds(Drop, kind=st.sampled_from(OBJECTS), name=names, cascade=st.booleans(), if_exists=st.booleans()),
)
sources = st.builds(RegisterSource, name=names, columns=column_lists, connector=connectors, options=options)
statements = st.one_of(sources, streams, tables(), changes, views, aggregates, commands)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(statements)
def test_printed_statement_parses_to_an_equal_one(statement: Statement) -> None:
    printed = statement.sql()
    again = parse_one(printed)
    assert again == statement
    assert again.sql() == printed
    assert hash(again) == hash(statement)


@given(types)
def test_normal_types_stay_as_they_are(ddl: str) -> None:
    assert normalise_type(ddl) == ddl
