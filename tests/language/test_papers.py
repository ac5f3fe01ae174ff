"""The papers' own statements, as printed (in ASCII), each named after its example."""

from __future__ import annotations

import pytest

from headrace.language import (
    Column,
    CreateAggregate,
    CreateStream,
    CreateView,
    CreateViewDelta,
    RegisterSource,
    Select,
    parse,
    parse_one,
)


def view(text: str) -> CreateView:
    statement = parse_one(text)
    assert isinstance(statement, CreateView)
    assert parse_one(statement.sql()) == statement
    return statement


def select(text: str) -> Select:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    assert parse_one(statement.sql()) == statement
    return statement


def aggregate(text: str) -> CreateAggregate:
    statement = parse_one(text)
    assert isinstance(statement, CreateAggregate)
    assert parse_one(statement.sql()) == statement
    return statement


def relation_names(statement: Select | CreateView) -> list[str]:
    return [ref.name for ref in statement.query.relations()]


# -- SyncSQL --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["\n", ";\n", "; "])
def test_syncsql_example_1(separator: str) -> None:
    source, rooms, readings = parse(
        separator.join(
            [
                "REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501",
                "RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID",
                "TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL",
            ]
        )
    )
    assert isinstance(source, RegisterSource)
    assert source.columns == (Column("RoomID", "STRING"), Column("Temperature", "INT"))
    assert (source.connector.kind, dict(source.connector.arguments)) == ("PORT", {"port": 5501})
    assert isinstance(rooms, CreateStream)
    assert isinstance(readings, CreateStream)
    assert (rooms.over, rooms.key) == ("TemperatureSource", ("RoomID",))
    assert (readings.name, readings.key) == ("TempStr", ())


def test_syncsql_example_3() -> None:
    q3 = select("select STREAMED RoomID, Temperature from R(RoomTempStr) R where R.Temperature > 80")
    assert q3.query.output == "STREAMED"
    assert relation_names(q3) == ["RoomTempStr"]
    assert q3.query.to_spark(["snap"]) == "SELECT RoomID, Temperature FROM `snap` AS R WHERE R.Temperature > 80"


def test_syncsql_example_4() -> None:
    hot = view(
        "create STREAMED view HotRooms1 as select RoomID, Temperature from R(RoomTempStr) R where R.Temperature > 80"
    )
    assert (hot.output, hot.query.features()) == ("STREAMED", ())
    q4 = select("Q4: select STREAMED RoomID, Temperature from R(HotRooms1) R where R.Temperature > 100")
    assert relation_names(q4) == ["HotRooms1"]


def test_syncsql_example_5() -> None:
    window = view("create STREAMED view FiveUnitsWindow as select * from R(S) R where Now - 5 < R.TS <= Now")
    assert window.query.sql() == "SELECT * FROM S AS R WHERE (Now - 5 < R.TS AND R.TS <= Now)"
    assert window.query.features() == ()
    assert window.query.reads_clock


def test_syncsql_example_6() -> None:
    count = select("select STREAMED COUNT(*) from R(FiveUnitsWindow) groupby CarType")
    assert count.query.sql() == "SELECT STREAMED COUNT(*) FROM FiveUnitsWindow GROUP BY CarType"


def test_syncsql_example_8() -> None:
    hot = view("create STREAMED view H as select RoomID from R[Sync2](RoomTempStr) R where R.Temperature > 80")
    assert [ref.sync for ref in hot.query.relations()] == ["Sync2"]
    assert relation_names(hot) == ["RoomTempStr"]
    assert hot.query == select("SELECT RoomID FROM RoomTempStr SYNC Sync2 AS R WHERE R.Temperature > 80").query


def test_syncsql_example_10() -> None:
    sync = view("create STREAMED view Sync2 As select C.Timepoint from R(clockStr) C where C.Timepoint mod 2 = 0")
    assert sync.query.sql() == "SELECT C.Timepoint FROM clockStr AS C WHERE C.Timepoint % 2 = 0"


@pytest.mark.parametrize("union", ["UNION", "∪"])
def test_syncsql_example_11(union: str) -> None:
    both = view(f"create STREAMED view U as select DISTINCT(Timepoint) from R(Sync2) S2 {union} R(Sync5) S5")
    assert relation_names(both) == ["Sync2", "Sync5"]


def test_syncsql_example_12() -> None:
    hot = view("create STREAMED view HotSync as select R.TS from R(TempStr) R where R.Temperature > 120")
    assert relation_names(hot) == ["TempStr"]


def test_syncsql_example_13() -> None:
    now = view("create STREAMED view NowView as select 1 as KEY, MAX(T.Timepoint) as currTime from R(clockStr) T")
    assert now.query.features() == ()
    window = view(
        "create STREAMED view FiveUnitsWindow as select R.* from R(S) R, R(NowView) N "
        "where N.currTime -5 < R.TS ≤ N.currTime"
    )
    assert relation_names(window) == ["S", "NowView"]
    assert "(N.currTime - 5 < R.TS AND R.TS <= N.currTime)" in window.query.sql()


def test_syncsql_example_14() -> None:
    window = view(
        "create STREAMED view RangeFiveSlideTwo as select R.* from R[Sync2](S) R, R(TwoUnitsSlide) N "
        "where N.currTime - 5 < R.TS <= N.currTime"
    )
    assert relation_names(window) == ["S", "TwoUnitsSlide"]
    assert [ref.sync for ref in window.query.relations()] == ["Sync2", None]


# -- ESL (Stream Mill) ----------------------------------------------------------------------------------------------

ESL_1 = """
CREATE STREAM OpenAuction (itemID int,
    sellerID char(10), price real, start_time timestamp)
    ORDER BY start_time; /* external timestamps */
    SOURCE 'port4445';
CREATE STREAM ClosedAuction(itemID int,
    buyerID char(10), price real, current_time timestamp)
    ORDER BY current_time; /* internal timestamp */
    SOURCE 'port4446';
CREATE STREAM Bid(itemID int,
    price real, bidderID char(10), bid_time timestamp)
    SOURCE 'port4447';
"""


def test_esl_example_1() -> None:
    statements = parse(ESL_1)
    found = []
    for statement in statements:
        assert isinstance(statement, CreateStream)
        assert statement.source is not None
        assert parse_one(statement.sql()) == statement
        found.append((statement.name, statement.order_by, statement.source.arguments["port"]))
    assert found == [("OpenAuction", "start_time", 4445), ("ClosedAuction", "current_time", 4446), ("Bid", None, 4447)]
    assert statements[0].columns == (  # type: ignore[attr-defined]
        Column("itemID", "INT"), Column("sellerID", "STRING"), Column("price", "FLOAT"),
        Column("start_time", "TIMESTAMP"),
    )  # fmt: skip


def test_esl_examples_2_and_4() -> None:
    select("SELECT itemID, sellerID, price, start_time\n FROM OpenAuction WHERE price > 1000")
    assert select("SELECT decay_online_avg(price) FROM ClosedAuction").sql().startswith("SELECT decay_online_avg(")


def test_esl_example_3() -> None:
    stream = parse_one("CREATE STREAM expensiveItems AS SELECT itemID, price FROM OpenAuction WHERE price > 1000")
    assert isinstance(stream, CreateStream)
    assert stream.query is not None


def test_esl_example_5() -> None:
    found = select(
        "SELECT itemID, sellerID, price, min(price) OVER (PARTITION BY\nSellerID RANGE UNBOUNDED PRECEDING)\n"
        "AS Price FROM OpenAuction"
    )
    assert found.query.features() == ()


def test_esl_example_6() -> None:
    stream = parse_one(
        "CREATE STREAM PriceRise(itemID, price, Time) AS\nSELECT itemID, price, start_time FROM OpenAuction\n"
        "UNION ALL\nSELECT itemID, price, current_time FROM ClosedAuction"
    )
    assert isinstance(stream, CreateStream)
    assert stream.columns is not None
    assert stream.query is not None
    assert [column.name for column in stream.columns] == ["itemID", "price", "Time"]
    assert [ref.name for ref in stream.query.relations()] == ["OpenAuction", "ClosedAuction"]


def test_esl_example_7() -> None:
    average = aggregate("""
        CREATE AGGREGATE avg(Next Real) : Real
        {
        TABLE state(tsum Real, cnt Int);
        INITIALIZE : { INSERT INTO state VALUES (Next, 1); }
        ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; }
        TERMINATE : { INSERT INTO RETURN
        SELECT tsum/cnt FROM state; }
        }""")
    assert average.parameters == (Column("Next", "FLOAT"),)
    assert average.returns == "FLOAT"
    assert average.tables[0].columns == (Column("tsum", "FLOAT"), Column("cnt", "INT"))
    assert average.blocks["TERMINATE"] == ("INSERT INTO RETURN SELECT tsum/cnt FROM state",)


def test_esl_example_8() -> None:
    decay = aggregate("""
        CREATE AGGREGATE decay_online_avg(Next Real) : Real
        {
        TABLE state(tsum Real, cnt Int);
        INITIALIZE : {
        INSERT INTO state VALUES (Next, 1);
        INSERT INTO RETURN VALUES (Next); }
        ITERATE: {
        UPDATE state SET tsum= 0.9*tsum + 1.1*Next, cnt=cnt+1;
        INSERT INTO RETURN SELECT tsum/cnt FROM state; }
        }""")
    assert len(decay.blocks["INITIALIZE"]) == 2
    assert "TERMINATE" not in decay.blocks


def test_esl_example_9() -> None:
    parse_one(
        "CREATE STREAM AskdPrice AS SELECT sellerID, decay_online_avg(price) AS avg_price\nFROM O GROUP BY sellerID"
    )


def test_esl_example_10() -> None:
    cumulative = aggregate("""
        CREATE AGGREGATE cum_avg(Next Real) : Real
        {
          TABLE state(tsum Real, cnt Int);
          INITIALIZE : { INSERT INTO state VALUES (Next, 1); INSERT INTO RETURN SELECT tsum/cnt FROM state; }
          ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; INSERT INTO RETURN SELECT tsum/cnt FROM state; }
          TERMINATE : { }
        }""")
    assert cumulative.blocks["TERMINATE"] == ()


def test_esl_example_11() -> None:
    naive = aggregate("""
        CREATE WINDOW AGGREGATE avg(Next Real) : Real
        {
          TABLE inwindow(wnext Real);
          INITIALIZE: ITERATE: {
            INSERT INTO RETURN
              SELECT avg(wnext) FROM inwindow;
          }
        }""")
    assert naive.window
    assert not naive.algebraic
    assert (
        naive.blocks["INITIALIZE"] == naive.blocks["ITERATE"] == ("INSERT INTO RETURN SELECT avg(wnext) FROM inwindow",)
    )


def test_esl_example_12() -> None:
    expiring = aggregate("""
        CREATE WINDOW AGGREGATE myavg(Next Real) : Real
        {
          TABLE state(tsum Int, cnt Real);
          TABLE inwindow(wnext Real);
          INITIALIZE : { INSERT INTO state VALUES (Next, 1); INSERT INTO RETURN VALUES (Next); }
          ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; INSERT INTO RETURN SELECT tsum/cnt FROM state; }
          EXPIRE: { /* when there are expired tuples take the oldest */
            UPDATE state SET cnt= cnt-1, tsum = tsum - oldest().wnext;
          }
        }""")
    assert [table.name for table in expiring.tables] == ["state", "inwindow"]
    assert expiring.blocks["EXPIRE"] == ("UPDATE state SET cnt= cnt-1, tsum = tsum - oldest().wnext",)


@pytest.mark.parametrize("less", ["≤", "<="])
def test_esl_examples_13_and_16(less: str) -> None:
    found = aggregate(f"""
        CREATE ALGEBRAIC WINDOW AGGREGATE
          max (Next Real): Real
        {{ TABLE inwindow(wnext real);
          INITIALIZE : {{
            INSERT INTO RETURN VALUES (Next);
          }} /* new tuples added to inwindow automatically */
          ITERATE : {{
            DELETE FROM inwindow WHERE wnext {less} Next;
          }}
          EXPIRE: {{ /*expired tuples removed automatically*/
            INSERT INTO RETURN VALUES (oldest()) }}
        }}""")
    assert found.algebraic
    assert found.window
    assert found.blocks["ITERATE"] == ("DELETE FROM inwindow WHERE wnext <= Next",)
    assert found.blocks["EXPIRE"] == ("INSERT INTO RETURN VALUES (oldest())",)


def test_esl_example_14() -> None:
    found = select("SELECT itemID, sum(bid.price)\nOVER(PARTITION BY itemID\nROWS 49 PRECEDING SLIDE 10)\nFROM Bid")
    assert found.query.features() == ()


def test_esl_example_15() -> None:
    first, second = parse("""
        CREATE STREAM temp AS (
          SELECT itemID, sum(bid.price) AS s
            OVER(PARTITION BY itemID ROWS 9
                 PRECEDING SLIDE 10)
          FROM Bid);
        SELECT itemID, sum(s)
          OVER(PARTITION BY itemID ROWS 4 PRECEDING)
        FROM temp""")
    assert isinstance(first, CreateStream)
    assert first.query is not None
    assert first.query.sql().endswith("SLIDE 10) AS s FROM Bid")
    assert isinstance(second, Select)
    assert second.query.features() == ()


def test_esl_example_17() -> None:
    grouping = aggregate("""
        CREATE AGGREGATE product_groups(tag Char(10), seen Timestamp) : (tag Char(10), grp Int)
        { TABLE last(seen_at Timestamp, grp Int);
          INITIALIZE: { INSERT INTO last VALUES (seen, 1); INSERT INTO RETURN VALUES (tag, 1); }
          ITERATE: { UPDATE last SET grp = grp + 1 WHERE seen - seen_at > 2; UPDATE last SET seen_at = seen;
                     INSERT INTO RETURN SELECT tag, grp FROM last; } }""")
    assert grouping.returns == (Column("tag", "STRING"), Column("grp", "INT"))


def test_esl_example_18() -> None:
    stream, alarm = parse("""
        CREATE STREAM larceny-in-progress AS (
        SELECT tagid, tagtime, item_alarm(tagid, tagtype, tagtime) OVER
        (RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)
        FROM tag_readings);
        AGGREGATE item_alarm(tagid, tagtype, tagtime):char
        {
        TABLE inwindow(tid, ttype, ttime);
        INITIALIZE: ITERATE: {
        DELETE FROM inwindow
        WHERE tagtype = 'ap' AND ttype = 'item';
        DELETE FROM inwindow
        WHERE tagtype = 'item' AND ttype = 'item' AND EXISTS
        (SELECT tid FROM inwindow WHERE ttype = 'ap'); }
        EXPIRE: {
        INSERT INTO RETURN VALUES ('larceny alarm')
        WHERE tagtype = 'item' AND NOT EXISTS
        (SELECT tid FROM inwindow WHERE ttype='ap'); }
        }""")
    assert isinstance(stream, CreateStream)
    assert stream.query is not None
    assert (stream.name, stream.query.features()) == ("larceny-in-progress", ())
    assert isinstance(alarm, CreateAggregate)
    assert alarm.parameters == (Column("tagid", ""), Column("tagtype", ""), Column("tagtime", ""))
    assert len(alarm.blocks["ITERATE"]) == 2
    assert parse_one(alarm.sql()) == alarm
    assert parse_one(stream.sql()) == stream


# -- ViewDF ---------------------------------------------------------------------------------------------------------


def delta(text: str) -> CreateViewDelta:
    statement = parse_one(text)
    assert isinstance(statement, CreateViewDelta)
    assert parse_one(statement.sql()) == statement
    return statement


def test_viewdf_view1() -> None:
    found = view("""
        CREATE VIEW View1 AS
          SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
          FROM M PATTERN [a, b, c, d+]
          WHERE a.loss>10 AND b.loss>10 AND c.loss>10 AND d.loss>10
          GROUP BY src, dest""")
    assert found.query.features() == ("PATTERN",)


def test_viewdf_helper() -> None:
    helper = delta("""
        CREATE VIEW Helper AS
        INITIALIZE Helper[i] AS
          SELECT src, dest, 1 AS ct, loss AS sum_loss
          FROM M[i]
          WHERE loss>10
        UPDATE Helper[j] AS
          SELECT src, dest, ct+1, sum_loss+loss
          FROM (
            SELECT New.src AS src, New.dest AS dest, Prev.ct AS ct, Prev.sum_loss AS sum_loss, New.loss AS loss
            FROM M[j] AS New
            LEFT OUTER JOIN Helper[j-1] AS Prev
            WHERE New.loss>10 )
        PARTITION LENGTH 60""")
    assert (helper.initialize_index, helper.update_index, helper.partition_length) == ("i", "j", 60)
    assert [ref.name for ref in helper.update.relations()] == ["M", "Helper"]
    assert [ref.parts.words("j") for ref in helper.update.relations() if ref.parts] == ["j", "j-1"]


def test_viewdf_view2() -> None:
    delta("""
        CREATE VIEW View2 AS
        INITIALIZE View2[i] AS SELECT src, dest, ct, sum_loss FROM Helper[i] WHERE ct >= 4
        UPDATE View2[j] AS SELECT src, dest, ct, sum_loss FROM Helper[j] WHERE ct >= 4
        PARTITION LENGTH 60""")


def test_viewdf_view3() -> None:
    hourly = delta("""
        CREATE VIEW View3 AS
        INITIALIZE View3[i] AS SELECT src, dest, sum(loss) as sum_loss FROM M[i*60-59 .. i*60] GROUP BY src, dest
        UPDATE View3[j] AS SELECT src, dest, sum(loss) FROM M[j*60-59 .. j*60] GROUP BY src, dest
        PARTITION LENGTH 3600""")
    assert "M[i * 60 - 59 .. i * 60]" in hourly.initialize.sql()


def test_viewdf_j() -> None:
    delta("""
        CREATE VIEW J AS
        INITIALIZE J[i] AS
            SELECT *
            FROM M[i] NATURAL JOIN N[i]
        UPDATE J[j] AS
            SELECT *
            FROM M[j] NATURAL JOIN N[j]
        PARTITION LENGTH 60""")


def test_viewdf_view6_spells_update_view() -> None:
    delta("""
        CREATE VIEW View6
        INITIALIZE View6[i] AS SELECT G, sum_A FROM Helper[i]
        UPDATE VIEW View6[j] AS SELECT Temp.G, sum(Temp.Temp_Sum) AS sum_A FROM (
            SELECT G, sum_A AS Temp_Sum FROM Helper[j] UNION ALL SELECT G, sum_A*(-1) AS Temp_Sum FROM Helper[j-4]
        ) AS Temp GROUP BY G PARTITION LENGTH 60""")


def test_viewdf_part_timestamp() -> None:
    found = select('SELECT *\nFROM View2\nWHERE PART_TIMESTAMP="2015/01/01 0:00"')
    assert found.query.relations()[0].part_timestamp
    assert found.query.to_spark(["v"]) == (
        "SELECT * EXCEPT (PART_TIMESTAMP) FROM `v` AS View2 "
        "WHERE PART_TIMESTAMP = CAST('2015-01-01T00:00:00Z' AS TIMESTAMP)"
    )


# -- the thesis, section 3.4 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (
            "SELECT Wstream(*)[ROWS 10] FROM Stream1[RANGE 1 min], Stream2[RANGE 1 min] WHERE S1.a = S2.a",
            ("Wstream",),
        ),
        (
            "SELECT SUM(a) FROM (SELECT SUM(a) FROM Stream1[RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10]",
            (),
        ),
        ("SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM Stream1[RANGE 6 sec SLIDE 6 sec]", ("Wstream",)),
        (
            "SELECT Rstream-restore(*) FROM Stream1[RANGE 1 min SLIDE 10 sec], Stream2[RANGE 1 min SLIDE 10 sec] "
            "WHERE S1.a = S2.a",
            ("Rstream-restore",),
        ),
        ("SELECT Istream-restore(a, b) FROM S [PARTITION BY k ROWS 5]", ("Istream-restore",)),
        ("SELECT Istream(*) FROM S", ("Istream",)),
        ("SELECT Dstream(*) FROM S [WINDOW 10 min SLIDE 2 min]", ("Dstream",)),
    ],
)
def test_thesis_3_4(text: str, features: tuple[str, ...]) -> None:
    assert select(text).query.features() == features
