"""Aggregates of the paper, called in queries and views, with results worked out by hand."""

from __future__ import annotations

import pytest

from headrace.session import Session
from tests.conftest import rows, tagged
from tests.user_aggregates.test_statements import AVG, WINDOW_AVG

DECAY = """CREATE AGGREGATE decay_online_avg(Next Real) : Real
{ TABLE state(tsum Real, cnt Int);
INITIALIZE : { INSERT INTO state VALUES (Next, 1); INSERT INTO RETURN VALUES (Next); }
ITERATE: { UPDATE state SET tsum= 0.9*tsum + 1.1*Next, cnt=cnt+1;
INSERT INTO RETURN SELECT tsum/cnt FROM state; } }"""
MAX = """CREATE ALGEBRAIC WINDOW AGGREGATE max (Next Real): Real
{ TABLE inwindow(wnext real);
INITIALIZE : { INSERT INTO RETURN VALUES (Next); }
ITERATE : { DELETE FROM inwindow WHERE wnext ≤ Next; INSERT INTO RETURN VALUES (oldest()); }
EXPIRE: { INSERT INTO RETURN VALUES (oldest()); } }"""


@pytest.fixture
def auctions(session: Session) -> Session:
    session.sql("CREATE STREAM OpenAuction (itemID int, sellerID char(10), price real, at timestamp) ORDER BY at")
    session.feed("OpenAuction", [(1, "s", 4.0, 1), (2, "r", 8.0, 2), (3, "s", 2.0, 3), (4, "s", 6.0, 5)])
    return session


def test_examples_4_and_9(auctions: Session) -> None:
    auctions.sql(DECAY)
    answer = auctions.sql("SELECT decay_online_avg(price) FROM OpenAuction WHERE sellerID = 's'")
    # 4; (3.6 + 2.2) / 2; (5.22 + 6.6) / 3
    assert [round(row[0], 4) for row in rows(answer)] == [2.9, 3.94, 4.0]
    auctions.sql(
        "CREATE STREAM AskdPrice AS SELECT sellerID, decay_online_avg(price) AS avg_price FROM OpenAuction "
        "GROUP BY sellerID"
    )
    auctions.feed("OpenAuction", [(5, "r", 8.0, 6)])
    auctions.refresh()
    assert [(row[1], round(row[2], 4), row[3]) for row in tagged(auctions.changes("AskdPrice"))][-1] == ("r", 8.0, 6)


def test_example_5(auctions: Session) -> None:
    answer = auctions.sql(
        "SELECT itemID, sellerID, price, min(price) OVER (PARTITION BY SellerID RANGE UNBOUNDED PRECEDING) "
        "AS low FROM OpenAuction"
    )
    assert [(row[0], row[3]) for row in rows(answer)] == [(1, 4.0), (2, 8.0), (3, 2.0), (4, 2.0)]


def test_examples_7_and_11(auctions: Session) -> None:
    auctions.sql(AVG)
    auctions.sql(WINDOW_AVG)
    answer = auctions.sql(
        "SELECT itemID, avg(price) OVER (PARTITION BY sellerID ROWS 1 PRECEDING) AS a FROM OpenAuction"
    )
    assert rows(answer) == [(1, 4.0), (2, 8.0), (3, 3.0), (4, 4.0)]
    assert rows(auctions.sql("SELECT avg(price) FROM OpenAuction [RANGE 3 SECONDS]")) == [(4.0,)]


def test_example_16(auctions: Session) -> None:
    auctions.sql(MAX)
    answer = auctions.sql("SELECT itemID, max(price) OVER (ROWS 1 PRECEDING) AS m FROM OpenAuction")
    assert rows(answer) == [(1, 4.0), (2, 8.0), (3, 8.0), (4, 6.0)]
    assert rows(auctions.sql("SELECT max(price) FROM OpenAuction")) == [(8.0,)]


def test_example_14_slides(auctions: Session) -> None:
    answer = auctions.sql("SELECT itemID, sum(price) OVER (ROWS 2 PRECEDING SLIDE 2) AS s FROM OpenAuction")
    assert rows(answer) == [(2, 12.0), (4, 16.0)]


def test_an_aggregate_without_parameters(auctions: Session) -> None:
    auctions.sql(
        "CREATE AGGREGATE tally() : INT { TABLE s(n INT); INITIALIZE: { INSERT INTO s VALUES (1); } "
        "ITERATE: { UPDATE s SET n = n + 1; } TERMINATE: { INSERT INTO RETURN SELECT n FROM s; } }"
    )
    answer = auctions.sql(
        "SELECT tally() OVER (ROWS 1 PRECEDING) AS a, count(*) OVER (ROWS 2 PRECEDING) AS b FROM OpenAuction"
    )
    assert rows(answer) == [(1, 1), (2, 2), (2, 3), (2, 3)]
