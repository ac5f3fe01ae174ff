"""Stream Mill's ESL, section 2: the paper's declarations and transducers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

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
