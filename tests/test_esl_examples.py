"""Stream Mill's ESL: the paper's examples as printed, with results worked out by hand.

Examples 11-18 leave small things out, which are put in: a closing parenthesis, CREATE, the place of an alias.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.errors import DefinitionError
from headrace.session import Session
from tests.conftest import rows, tagged

EXAMPLE_1 = """
CREATE STREAM OpenAuction (itemID int,
    sellerID char(10), price real, start_time timestamp)
    ORDER BY start_time; /* external timestamps */
    SOURCE 'port{0}';

CREATE STREAM ClosedAuction(itemID int,
    buyerID char(10), price real, current_time timestamp)
    ORDER BY current_time; /* internal timestamp */
    SOURCE 'port{1}';

CREATE STREAM Bid(itemID int,
    price real, bidderID char(10), bid_time timestamp)
    SOURCE 'port{2}';
"""


@pytest.fixture
def auctions(session: Session, free_ports: list[int]) -> Session:
    session.sql(EXAMPLE_1.format(*free_ports))
    return session


def second(number: float) -> datetime:
    return datetime.fromtimestamp(number, UTC)


def test_example_1_three_kinds_of_timestamp(auctions: Session) -> None:
    auctions.feed("OpenAuction", [(1, "s1", 1200.0, 10), (2, "s2", 5.0, 11)])
    auctions.feed("ClosedAuction", [(1, "b1", 1500.0)], at=20)
    auctions.feed("Bid", [(1, 1300.0, "b1", 99)], at=15)
    assert rows(auctions.table("OpenAuction")) == [(1, "s1", 1200.0, second(10)), (2, "s2", 5.0, second(11))]
    # Internal: the system stamps the tuple on arrival, in the reserved column.
    assert rows(auctions.table("ClosedAuction")) == [(1, "b1", 1500.0, second(20))]
    # Latent: bid_time is a column like any other; the stream's own order is that of arrival.
    assert tagged(auctions.changes("Bid")) == [("+", 1, 1300.0, "b1", second(99), 15)]


def test_example_1_out_of_order_tuples_go_to_a_separate_stream(auctions: Session) -> None:
    auctions.feed("OpenAuction", [(1, "s", 1.0, 10), (2, "s", 1.0, 5), (3, "s", 1.0, 12)])
    assert [row[0] for row in rows(auctions.table("OpenAuction"))] == [1, 3]
    assert [row[0] for row in rows(auctions.table("OpenAuction__late"))] == [2]
    status = {item.name: item for item in auctions.status()}
    assert status["OpenAuction"].late == 1


def test_example_2_selection(auctions: Session) -> None:
    auctions.feed("OpenAuction", [(1, "s1", 1200.0, 10), (2, "s2", 5.0, 11)])
    answer = auctions.sql("SELECT itemID, sellerID, price, start_time FROM OpenAuction WHERE price > 1000")
    assert rows(answer) == [(1, "s1", 1200.0, second(10))]


def test_example_3_derived_stream(auctions: Session) -> None:
    auctions.sql(
        "CREATE STREAM expensiveItems AS SELECT itemID, sellerID, price, start_time FROM OpenAuction WHERE price > 1000"
    )
    auctions.sql("CREATE VIEW sellers AS SELECT sellerID, count(*) AS n FROM expensiveItems GROUP BY sellerID")
    auctions.feed("OpenAuction", [(1, "s1", 1200.0, 10), (2, "s2", 5.0, 11), (3, "s1", 2000.0, 12)])
    auctions.refresh()
    assert tagged(auctions.changes("expensiveItems")) == [
        ("+", 1, "s1", 1200.0, second(10), 10),
        ("+", 3, "s1", 2000.0, second(12), 12),
    ]
    assert rows(auctions.table("sellers")) == [("s1", 2)]


def test_example_6_union_of_streams(auctions: Session) -> None:
    auctions.sql(
        "CREATE STREAM PriceRise(itemID, price, Time) AS SELECT itemID, price, start_time FROM OpenAuction"
        " UNION ALL SELECT itemID, price, current_time FROM ClosedAuction"
    )
    auctions.feed("OpenAuction", [(1, "s1", 10.0, 10)])
    auctions.feed("ClosedAuction", [(1, "b1", 15.0)], at=20)
    auctions.refresh()
    assert tagged(auctions.changes("PriceRise")) == [("+", 1, 10.0, second(10), 10), ("+", 1, 15.0, second(20), 20)]


# --- Section 3: base aggregates ------------------------------------------------------------------------------------

EXAMPLE_5 = """
SELECT itemID, sellerID, price, min(price) OVER (PARTITION BY
SellerID RANGE UNBOUNDED PRECEDING)
AS Price FROM OpenAuction
"""
EXAMPLE_7 = """
CREATE AGGREGATE avg(Next Real) : Real
{
TABLE state(tsum Real, cnt Int);
INITIALIZE : { INSERT INTO state VALUES (Next, 1); }
ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; }
TERMINATE : { INSERT INTO RETURN
SELECT tsum/cnt FROM state; }
}
"""
EXAMPLE_8 = """
CREATE AGGREGATE decay_online_avg(Next Real) : Real
{
TABLE state(tsum Real, cnt Int);
INITIALIZE : {
INSERT INTO state VALUES (Next, 1);
INSERT INTO RETURN VALUES (Next); }
ITERATE: {
UPDATE state SET tsum= 0.9*tsum + 1.1*Next, cnt=cnt+1;
INSERT INTO RETURN SELECT tsum/cnt FROM state; }
}
"""
EXAMPLE_9 = """
CREATE STREAM AskdPrice AS
  SELECT sellerID, decay_online_avg(price) AS avg_price
  FROM OpenAuction GROUP BY sellerID
"""
EXAMPLE_10 = """
CREATE AGGREGATE cum_avg(Next Real) : Real
{
  TABLE state(tsum Real, cnt Int);
  INITIALIZE : {
    INSERT INTO state VALUES (Next, 1);
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  ITERATE : {
    UPDATE state SET tsum=tsum+Next, cnt=cnt+1;
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  TERMINATE : { }
}
"""


def test_examples_4_and_8_decay(auctions: Session) -> None:
    auctions.sql(EXAMPLE_8)
    for number, price in enumerate((10.0, 20.0, 10.0), 1):
        auctions.feed("ClosedAuction", [(number, "b", price)], at=number)
    found = rows(auctions.sql("SELECT decay_online_avg(price) FROM ClosedAuction"))
    # 10; (0.9 * 10 + 1.1 * 20) / 2 = 31 / 2; (0.9 * 31 + 1.1 * 10) / 3 = 38.9 / 3
    assert sorted(round(value, 4) for (value,) in found) == [10.0, 12.9667, 15.5]


def test_example_5_unbounded_window(auctions: Session) -> None:
    auctions.feed("OpenAuction", [(1, "s1", 30.0, 1), (2, "s2", 5.0, 2), (3, "s1", 40.0, 3), (4, "s1", 20.0, 4)])
    # The result bears the name of a column, but for its letters.
    found = rows(auctions.sql(EXAMPLE_5))
    assert found == [(1, "s1", 30.0, 30.0), (2, "s2", 5.0, 5.0), (3, "s1", 40.0, 30.0), (4, "s1", 20.0, 20.0)]


def test_example_7_is_blocking(auctions: Session) -> None:
    auctions.sql(EXAMPLE_7)
    auctions.feed("OpenAuction", [(1, "s1", 10.0, 1), (2, "s1", 20.0, 2), (3, "s2", 60.0, 4)])
    for text in ("SELECT avg(price) FROM OpenAuction", "CREATE STREAM a AS SELECT avg(price) AS p FROM OpenAuction"):
        with pytest.raises(DefinitionError) as error:
            auctions.sql(text)
        assert error.value.condition == "BLOCKING_AGGREGATE"
    # Tables and windows end.
    auctions.sql("CREATE TABLE prices (price REAL)")
    auctions.sql("INSERT INTO prices VALUES (1), (2), (6)")
    assert rows(auctions.sql("SELECT avg(price) FROM prices")) == [(3.0,)]
    found = rows(auctions.sql("SELECT itemID, avg(price) OVER (ROWS 1 PRECEDING) AS a FROM OpenAuction"))
    assert found == [(1, 10.0), (2, 15.0), (3, 40.0)]


def test_example_9_groups_of_a_stream(auctions: Session) -> None:
    auctions.sql(EXAMPLE_8)
    auctions.sql(EXAMPLE_9)
    auctions.feed("OpenAuction", [(1, "s1", 10.0, 1), (2, "s2", 7.0, 2)])
    auctions.refresh()
    auctions.feed("OpenAuction", [(3, "s1", 20.0, 3)])
    auctions.refresh()
    found = [(row[1], round(row[2], 4), row[3]) for row in tagged(auctions.changes("AskdPrice"))]
    assert found == [("s1", 10.0, 1), ("s2", 7.0, 2), ("s1", 15.5, 3)]


def test_example_10_is_what_an_unbounded_window_means(auctions: Session) -> None:
    auctions.sql(EXAMPLE_7)
    auctions.sql(EXAMPLE_10)
    auctions.feed("OpenAuction", [(1, "s1", 10.0, 1), (2, "s1", 20.0, 2), (3, "s2", 60.0, 4)])
    assert rows(auctions.sql("SELECT cum_avg(price) FROM OpenAuction")) == [(10.0,), (15.0,), (30.0,)]
    assert rows(auctions.sql("SELECT avg(price) OVER (ROWS UNBOUNDED PRECEDING) AS a FROM OpenAuction")) == [
        (10.0,), (15.0,), (30.0,),
    ]  # fmt: skip


# --- Section 4: window aggregates ----------------------------------------------------------------------------------

EXAMPLE_11 = """
CREATE WINDOW AGGREGATE avg(Next Real) : Real
{
  TABLE inwindow(wnext Real);
  INITIALIZE: ITERATE: {
    INSERT INTO RETURN
      SELECT avg(wnext) FROM inwindow;
  }
}
"""
EXAMPLE_12 = """
CREATE WINDOW AGGREGATE myavg(Next Real) : Real
{
  TABLE state(tsum Int, cnt Real);
  TABLE inwindow(wnext Real);
  INITIALIZE : {
    INSERT INTO state VALUES (Next, 1);
    INSERT INTO RETURN VALUES (Next);
  }
  ITERATE : {
    UPDATE state SET tsum=tsum+Next, cnt=cnt+1;
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  EXPIRE: { /* when there are expired tuples take the oldest */
    UPDATE state SET cnt= cnt-1, tsum = tsum - oldest().wnext;
  }
}
"""
EXAMPLE_13 = """
CREATE WINDOW AGGREGATE max (Next Real) : Real
{
  TABLE inwindow(wnext real);
  INITIALIZE : {
    INSERT INTO RETURN VALUES (Next);
  } /* new tuples are added to inwindow automatically */
  ITERATE : {
    DELETE FROM inwindow WHERE wnext ≤ Next;
    INSERT INTO RETURN VALUES (oldest());
  }
  EXPIRE: { } /* expired tuples are removed automatically */
}
"""


@pytest.fixture
def offers(auctions: Session) -> Session:
    """Offers at 1, 2, 3, 7 and 8 seconds."""
    offered = [(1, 30.0, 1), (2, 10.0, 2), (3, 20.0, 3), (4, 5.0, 7), (5, 6.0, 8)]
    auctions.feed("OpenAuction", [(item, "s", price, at) for item, price, at in offered])
    return auctions


def over(session: Session, call: str, window: str) -> list[float]:
    found = rows(session.sql(f"SELECT itemID, {call} OVER ({window}) AS r FROM OpenAuction"))
    return [value for _item, value in found]


@pytest.mark.parametrize(("text", "call"), [(EXAMPLE_7 + ";" + EXAMPLE_11, "avg(price)"), (EXAMPLE_12, "myavg(price)")])
def test_examples_11_and_12_averages_of_windows(offers: Session, text: str, call: str) -> None:
    offers.sql(text)
    # Of the row and the one before it.
    assert over(offers, call, "ROWS 1 PRECEDING") == [30.0, 20.0, 15.0, 12.5, 5.5]
    # Of the last two seconds: at 7, all that came before has left.
    assert over(offers, call, "RANGE 2 SECONDS PRECEDING") == [30.0, 20.0, 20.0, 5.0, 5.5]


def test_example_13_max(offers: Session) -> None:
    offers.sql(EXAMPLE_13)
    assert over(offers, "max(price)", "ROWS 1 PRECEDING") == [30.0, 30.0, 20.0, 20.0, 6.0]
    assert over(offers, "max(price)", "RANGE 4 SECONDS PRECEDING") == [30.0, 30.0, 30.0, 20.0, 6.0]


# --- Section 5: slides, panes, active expiration -------------------------------------------------------------------

EXAMPLE_14 = """
SELECT itemID, sum(bid.price)
OVER(PARTITION BY itemID
ROWS 49 PRECEDING SLIDE 10)
FROM Bid
"""
EXAMPLE_15 = """
CREATE STREAM temp AS (
  SELECT itemID, sum(bid.price)
    OVER(PARTITION BY itemID ROWS 9
         PRECEDING SLIDE 10) AS s
  FROM Bid);
CREATE STREAM summed AS
SELECT itemID, sum(s)
  OVER(PARTITION BY itemID ROWS 4 PRECEDING) AS total
FROM temp
"""
EXAMPLE_16 = """
CREATE ALGEBRAIC WINDOW AGGREGATE
  max (Next Real): Real
{ TABLE inwindow(wnext real);
  INITIALIZE : {
    INSERT INTO RETURN VALUES (Next);
  } /* new tuples added to inwindow automatically */
  ITERATE : {
    DELETE FROM inwindow WHERE wnext ≤ Next;
  }
  EXPIRE: { /*expired tuples removed automatically*/
    INSERT INTO RETURN VALUES (oldest()) }
}
"""


def test_examples_14_and_15_slides_and_panes(auctions: Session) -> None:
    auctions.sql(EXAMPLE_15)
    # Prices 1 to 60 for item 1, and nine bids for item 2, which never fill a slot.
    auctions.feed("Bid", [(1, float(price), "b", 0) for price in range(1, 61)], at=5)
    auctions.feed("Bid", [(2, 1.0, "b", 0)] * 9, at=6)
    auctions.refresh()
    # 1..10, 1..20, 1..30, 1..40, 1..50, 11..60
    expected = [(1, 55.0), (1, 210.0), (1, 465.0), (1, 820.0), (1, 1275.0), (1, 1775.0)]
    assert sorted(rows(auctions.sql(EXAMPLE_14)), key=lambda row: row[1]) == expected
    assert sorted(rows(auctions.table("summed")), key=lambda row: row[1]) == expected


def test_tumbles_never_look_at_rows_before_a_slots_tail(auctions: Session) -> None:
    """ROWS 9 PRECEDING SLIDE 28: of each 28 rows, 18 are ignored and 10 are summed."""
    auctions.feed("Bid", [(1, float(price), "b", 0) for price in range(1, 60)], at=5)
    found = rows(auctions.sql("SELECT sum(price) OVER (ROWS 9 PRECEDING SLIDE 28) AS s FROM Bid"))
    # 19..28 and 47..56
    assert found == [(235.0,), (515.0,)]


def test_example_16_tells_when_a_row_leaves(auctions: Session) -> None:
    auctions.sql("ALTER CLOCK SET manual")
    auctions.sql(EXAMPLE_16)
    auctions.sql(
        "CREATE STREAM highest AS SELECT itemID, max(price) OVER (RANGE 10 SECONDS PRECEDING ACTIVE EXPIRATION) AS m"
        " FROM OpenAuction"
    )
    auctions.sql("ADVANCE CLOCK TO 100")
    auctions.feed("OpenAuction", [(1, "s", 30.0, 100), (2, "s", 10.0, 102), (3, "s", 20.0, 103)])
    auctions.sql("ADVANCE CLOCK TO 105")
    # As printed, ITERATE tells nothing.
    assert tagged(auctions.changes("highest")) == [("+", 1, 30.0, 100)]
    # Nothing comes, and yet 30 leaves at 110 and 20 at 113. 10 was deleted when 20 came, and leaves without a word.
    auctions.sql("ADVANCE CLOCK TO 120")
    assert tagged(auctions.changes("highest")) == [("+", 1, 30.0, 100), ("+", 1, 30.0, 110), ("+", 3, 20.0, 113)]


def test_section_5_average_with_active_expiration(auctions: Session) -> None:
    """The EXPIRE that section 5.2 prints in place of Example 12's."""
    told = """EXPIRE: { /*when there are expired tuples take the oldest*/
  UPDATE state
    SET cnt= cnt-1, tsum = tsum - oldest().wnext;
  INSERT INTO RETURN
    SELECT tsum/cnt FROM state; }
}"""
    auctions.sql("ALTER CLOCK SET manual")
    auctions.sql(EXAMPLE_12[: EXAMPLE_12.index("EXPIRE")] + told)
    auctions.sql(
        "CREATE STREAM recent AS SELECT myavg(price) OVER (RANGE 10 SECONDS PRECEDING ACTIVE EXPIRATION) AS a"
        " FROM OpenAuction"
    )
    auctions.sql("ADVANCE CLOCK TO 100")
    auctions.feed("OpenAuction", [(1, "s", 30.0, 100), (2, "s", 10.0, 102)])
    auctions.sql("ADVANCE CLOCK TO 120")
    # Of nothing there is no average.
    assert tagged(auctions.changes("recent")) == [
        ("+", 30.0, 100), ("+", 20.0, 102), ("+", 10.0, 110), ("+", None, 112),
    ]  # fmt: skip


# --- Section 7: applications ---------------------------------------------------------------------------------------

READINGS = "CREATE STREAM tag_readings (tagid INT, tagtype STRING, tagtime TIMESTAMP) ORDER BY tagtime"
EXAMPLE_18 = """
CREATE AGGREGATE item_alarm(tagid, tagtype, tagtime):char
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
};
CREATE STREAM `larceny-in-progress` AS (
SELECT tagid, tagtime, item_alarm(tagid, tagtype, tagtime) OVER
(RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION) AS alarm
FROM tag_readings);
"""


def test_example_17_groups_of_products(session: Session) -> None:
    session.sql(READINGS)
    session.sql("LOAD AGGREGATES gap_groups")
    times = [10, 11, 13, 16, 17, 30]
    session.feed("tag_readings", [(number, "item", at) for number, at in enumerate(times, 1)])
    # A gap of more than 2 seconds begins a new group: before 16 and before 30.
    found = rows(session.sql("SELECT gap_groups(tagid, tagtime, 2) FROM tag_readings"))
    assert found == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]


def test_example_18_larceny_in_progress(session: Session) -> None:
    session.sql("ALTER CLOCK SET manual")
    session.sql(READINGS)
    session.sql(EXAMPLE_18)
    session.sql("ADVANCE CLOCK TO 100")
    readings = [
        (1, "item", 100),  # a person comes 3 seconds after it
        (90, "ap", 103),
        (2, "item", 107),  # the person came 4 seconds before it
        (3, "item", 109),  # the person left the window at 108
        (4, "item", 120),
        (5, "item", 122),
        (91, "ap", 126),  # too late for 4, in time for 5
    ]
    session.feed("tag_readings", readings[:4])
    session.sql("ADVANCE CLOCK TO 113")
    assert tagged(session.changes("larceny-in-progress")) == []
    session.sql("ADVANCE CLOCK TO 119")
    alarm = ("+", 3, second(109), "larceny alarm", 114)
    assert tagged(session.changes("larceny-in-progress")) == [alarm]
    session.feed("tag_readings", readings[4:])
    session.sql("ADVANCE CLOCK TO 140")
    assert tagged(session.changes("larceny-in-progress")) == [alarm, ("+", 4, second(120), "larceny alarm", 125)]


# --- Figure 2 ------------------------------------------------------------------------------------------------------

BOTH = (
    EXAMPLE_7.replace("avg", "mean_of")
    + ";"
    + EXAMPLE_12.replace("myavg", "mean_of").replace("tsum Int, cnt", "tsum Real, cnt")
)
ALGEBRAIC = """
CREATE ALGEBRAIC AGGREGATE total(x REAL) : REAL
{ TABLE state(s REAL);
  INITIALIZE: { INSERT INTO state VALUES (x); } ITERATE: { UPDATE state SET s = s + x; }
  TERMINATE: { INSERT INTO RETURN SELECT s FROM state; } };
CREATE ALGEBRAIC WINDOW AGGREGATE total(x REAL) : REAL
{ TABLE state(s REAL); TABLE inwindow(wx REAL);
  INITIALIZE: { INSERT INTO state VALUES (x); INSERT INTO RETURN VALUES (x); }
  ITERATE: { UPDATE state SET s = s + x; INSERT INTO RETURN SELECT s FROM state; }
  EXPIRE: { UPDATE state SET s = s - oldest(); } }
"""


@pytest.mark.parametrize(
    ("window", "means", "totals"),
    [
        # Box 1: TERMINATE after each row.
        ("ROWS UNBOUNDED PRECEDING", [30.0, 20.0, 20.0, 16.25, 14.2], [30.0, 40.0, 60.0, 65.0, 71.0]),
        # Box 2: the window version.
        ("ROWS 1 PRECEDING", [30.0, 20.0, 15.0, 12.5, 5.5], [30.0, 40.0, 30.0, 25.0, 11.0]),
        # Box 3: a tumble of which each slot's first row is not looked at, and box 4's tumbles without a gap.
        ("ROWS 0 PRECEDING SLIDE 2", [10.0, 5.0], [10.0, 5.0]),
        ("ROWS 1 PRECEDING SLIDE 2", [20.0, 12.5], [40.0, 25.0]),
        # Box 4, panes of one row for what is ALGEBRAIC; box 5 for what is not.
        ("ROWS 2 PRECEDING SLIDE 2", [20.0, 11.6667], [40.0, 35.0]),
        # The same by time: slots end at 2, 4 and 8; that of the last row is not over.
        ("RANGE 2 SECONDS PRECEDING SLIDE 2 SECONDS", [30.0, 15.0, 5.0], [30.0, 30.0, 5.0]),
        ("RANGE 4 SECONDS PRECEDING SLIDE 2 SECONDS", [30.0, 20.0, 5.0], [30.0, 60.0, 5.0]),
    ],
)  # fmt: skip
def test_figure_2_every_box(offers: Session, window: str, means: list[float], totals: list[float]) -> None:
    offers.sql(BOTH)
    offers.sql(ALGEBRAIC)
    assert [round(value, 4) for value in over(offers, "mean_of(price)", window)] == means
    assert over(offers, "total(price)", window) == totals


def test_figure_2_without_a_window_version(offers: Session) -> None:
    """Box 6: only the base version is written, and Example 11 is derived from it."""
    offers.sql(EXAMPLE_7.replace("avg", "mean_of"))
    assert over(offers, "mean_of(price)", "ROWS 1 PRECEDING") == [30.0, 20.0, 15.0, 12.5, 5.5]
    assert [round(value, 4) for value in over(offers, "mean_of(price)", "ROWS 2 PRECEDING SLIDE 2")] == [20.0, 11.6667]
