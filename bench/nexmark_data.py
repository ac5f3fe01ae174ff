"""Nexmark's events: people who offer auctions and bid in them, as three Arrow tables in the order of event time.

Of every 50 events 1 is a person, 3 are auctions and 46 are bids. Numbers, hot keys and lengths follow the published
generator: half of all bids go to the newest hot auction, three of four are by a hot bidder, three of four auctions are
by a hot seller. Events follow from a seed and their position, so any range of them can be made by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.types import arrow_type
from headrace.session import Session

PERSON_SHARE, AUCTION_SHARE, ROUND = 1, 3, 50
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_AUCTIONS, HOT_BIDDERS, HOT_SELLERS, HOT_CHANNELS = 2, 4, 4, 2
HOT_EVERY = 100
IN_FLIGHT, ACTIVE, LEAD = 100, 1_000, 10
START = 1_436_918_400_000_000  # 2015-07-15, as the published generator

COLUMNS: Mapping[str, str] = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,"
    " dateTime TIMESTAMP, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,"
    " expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
}

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


@dataclass(frozen=True)
class Events:
    """Some events, by kind."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    def tables(self) -> dict[str, pa.Table]:
        return {"person": self.person, "auction": self.auction, "bid": self.bid}


def events(count: int, *, first: int = 0, seed: int = 0, rate: float = 10_000) -> Events:
    """The events numbered `first` to `first + count - 1`, of which `rate` come in a second."""
    rng = np.random.default_rng([seed, first])
    numbers = np.arange(first, first + count, dtype=np.int64)
    place = numbers % ROUND
    kinds = (place < PERSON_SHARE, (place >= PERSON_SHARE) & (place < PERSON_SHARE + AUCTION_SHARE))
    people, auctions, bids = numbers[kinds[0]], numbers[kinds[1]], numbers[~(kinds[0] | kinds[1])]
    return Events(_people(rng, people, rate), _auctions(rng, auctions, rate), _bids(rng, bids, rate))


def _micros(numbers: np.ndarray, rate: float) -> np.ndarray:
    return START + (numbers * (1_000_000 / rate)).astype(np.int64)


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros, pa.timestamp("us", tz="UTC"))


def _people(rng: np.random.Generator, numbers: np.ndarray, rate: float) -> pa.Table:
    count = len(numbers)
    first, last = _pick(rng, _FIRST, count), _pick(rng, _LAST, count)
    cards = [pa.array(np.char.zfill(rng.integers(0, 10_000, count).astype(str), 4)) for _four in range(4)]
    mail = pc.binary_join_element_wise(
        _text(rng, count, 7), pc.binary_join_element_wise(_text(rng, count, 5), "com", "."), "@"
    )
    return _table(
        "person",
        numbers // ROUND + FIRST_ID,
        pc.binary_join_element_wise(first, last, " "),
        mail,
        pc.binary_join_element_wise(*cards, " "),
        _pick(rng, _CITIES, count),
        _pick(rng, _STATES, count),
        _times(_micros(numbers, rate)),
        _text(rng, count, 24),
    )


def _auctions(rng: np.random.Generator, numbers: np.ndarray, rate: float) -> pa.Table:
    count = len(numbers)
    newest = numbers // ROUND
    hot = rng.integers(0, HOT_SELLERS, count) > 0
    seller = np.where(hot, newest // HOT_EVERY * HOT_EVERY, _any_person(rng, newest))
    made = _micros(numbers, rate)
    # An auction lasts about as long as it takes to open as many others as are in flight.
    horizon = int(IN_FLIGHT * ROUND / AUCTION_SHARE * 1_000_000 / rate)
    lasts = 1_000 + rng.integers(0, max(1, 2 * horizon), count)
    first_bid = _prices(rng, count)
    return _table(
        "auction",
        newest * AUCTION_SHARE + numbers % ROUND - PERSON_SHARE + FIRST_ID,
        _text(rng, count, 10),
        _text(rng, count, 40),
        first_bid,
        first_bid + _prices(rng, count),
        _times(made),
        _times(made + lasts),
        seller + FIRST_ID,
        rng.integers(0, CATEGORIES, count) + FIRST_CATEGORY,
        _text(rng, count, 24),
    )


def _bids(rng: np.random.Generator, numbers: np.ndarray, rate: float) -> pa.Table:
    count = len(numbers)
    people = numbers // ROUND
    newest = people * AUCTION_SHARE + AUCTION_SHARE - 1
    oldest = np.maximum(0, newest - IN_FLIGHT)
    any_auction = oldest + (rng.random(count) * (newest - oldest + 1 + LEAD)).astype(np.int64)
    auction = np.where(rng.integers(0, HOT_AUCTIONS, count) > 0, newest // HOT_EVERY * HOT_EVERY, any_auction)
    hot = rng.integers(0, HOT_BIDDERS, count) > 0
    bidder = np.where(hot, people // HOT_EVERY * HOT_EVERY + 1, _any_person(rng, people))
    channel, url = _channels(rng, count)
    return _table(
        "bid",
        auction + FIRST_ID,
        bidder + FIRST_ID,
        _prices(rng, count),
        channel,
        url,
        _times(_micros(numbers, rate)),
        _text(rng, count, 24),
    )


def _any_person(rng: np.random.Generator, newest: np.ndarray) -> np.ndarray:
    """One of the people who are active, or of the next few to come."""
    active = np.minimum(newest + 1, ACTIVE)
    return newest + 1 - active + (rng.random(len(newest)) * (active + LEAD)).astype(np.int64)


def _prices(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.round(10.0 ** (rng.random(count) * 6) * 100).astype(np.int64)


def _channels(rng: np.random.Generator, count: int) -> tuple[pa.Array, pa.Array]:
    """Half of all bids come by one of four channels; the others by many, most of which have their number in the URL."""
    hot = pa.array(rng.integers(0, HOT_CHANNELS, count) > 0)
    number = rng.integers(0, _OTHER_CHANNELS, count)
    other = pc.binary_join_element_wise("channel", pa.array(number.astype(str)), "-")
    folders = [_text(rng, count, 5) for _level in range(3)]
    url = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    known = pc.and_(pc.invert(hot), pa.array(number % 10 > 0))
    mark = pa.array((number * 7_919 % (1 << 31)).astype(str))
    numbered = pc.binary_join_element_wise(url, mark, "&channel_id=")
    return pc.if_else(hot, _pick(rng, _CHANNELS, count), other), pc.if_else(known, numbered, url)


def _pick(rng: np.random.Generator, values: Sequence[str], count: int) -> pa.Array:
    return pa.array(values).take(pa.array(rng.integers(0, len(values), count)))


def _text(rng: np.random.Generator, count: int, length: int) -> pa.Array:
    """Random letters, all of one length."""
    letters = _LETTERS[rng.integers(0, len(_LETTERS), count * length)]
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def _table(name: str, *columns: pa.Array | np.ndarray) -> pa.Table:
    fields = [column.split() for column in COLUMNS[name].split(",")]
    schema = pa.schema([(column, arrow_type(kind)) for column, kind in fields])
    return pa.table(
        [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns], schema=schema
    )


def out_of_order(rng: np.random.Generator, rows: pa.Table, seconds: float) -> pa.Table:
    """The rows in the order in which they would arrive if each were up to so many seconds under way."""
    arrives = rows.column("dateTime").cast(pa.int64()).to_numpy() + rng.integers(
        0, int(seconds * 1e6) + 1, rows.num_rows
    )
    return rows.take(pa.array(np.argsort(arrives, kind="stable")))


def declare(session: Session, *, slack: float = 0) -> None:
    """The three streams, in event time, and the side input of q13."""
    for name, columns in COLUMNS.items():
        late = f" SLACK {slack:g} SECONDS" if slack else ""
        session.sql(f"CREATE STREAM {name} ({columns}) KEY NULL ORDER BY dateTime{late}")
    session.sql("CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING)")


def side_input(count: int = 10_000) -> pa.Table:
    """What q13 looks up: a text for each number."""
    return pa.table({"key": np.arange(count, dtype=np.int64), "value": [f"side {number}" for number in range(count)]})
