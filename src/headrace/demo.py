"""The main job in small: a network is watched for a minute, and three views follow.

Packet losses arrive as a stream with times of their own, room temperatures as updates keyed by room, and a table of
devices is changed by hand meanwhile. `play` lets all of it arrive and refreshes the views; `check` compares each view
with its query run in batch over the same relations. Nothing is left to chance: the same seed, the same minute.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.language import format_time
from headrace.session import Session

SEED = 2005
#: 2015-01-01 10:00:00 UTC, when the minute begins, in seconds since the epoch.
START = 1_420_106_400
STEPS, STEP_SECONDS = 10, 6
REPORTS_A_STEP = 40

DEVICES = {
    1: ("core-1", "north"),
    2: ("core-2", "south"),
    3: ("edge-1", "north"),
    4: ("edge-2", "harbour"),
    5: ("edge-3", "harbour"),
}
#: It sends reports from the start, and nobody has entered it into the table yet.
UNKNOWN_DEVICE = 6
ROOMS = ("archive", "cable room", "harbour rack", "lab", "north rack", "server room", "south rack", "workshop")

DECLARATIONS = (
    "CREATE STREAM losses (src INT, dest INT, loss INT, at TIMESTAMP) ORDER BY at",
    "REGISTER SOURCE thermometers (room STRING, degrees INT) FROM MEMORY",
    "CREATE STREAM temperatures OVER thermometers KEY (room)",
    "CREATE TABLE devices (device INT PRIMARY KEY, name STRING, site STRING)",
)


@dataclass(frozen=True)
class DemoView:
    """A view of the demo: what it says, its query, and how many of its first columns name a row."""

    name: str
    says: str
    query: str
    key_width: int
    streamed: bool = False

    @property
    def statement(self) -> str:
        return f"CREATE {'STREAMED ' if self.streamed else ''}VIEW {self.name} AS {self.query}"


VIEWS = (
    DemoView(
        "link_losses",
        "packets lost on each link since the start",
        "SELECT s.name AS sender, d.name AS receiver, COUNT(*) AS reports, SUM(l.loss) AS lost, MAX(l.loss) AS worst "
        "FROM losses l JOIN devices s ON l.src = s.device JOIN devices d ON l.dest = d.device "
        "GROUP BY s.name, d.name HAVING SUM(l.loss) >= 20",
        key_width=2,
    ),
    DemoView(
        "hot_rooms",
        "rooms above 30 degrees, as a stream of changes",
        "SELECT room, degrees FROM temperatures WHERE degrees > 30",
        key_width=1,
        streamed=True,
    ),
    DemoView(
        "lossy_sites",
        "packets lost by the devices of each site",
        "SELECT d.site, COUNT(*) AS reports, SUM(l.loss) AS lost FROM losses l JOIN devices d ON l.src = d.device "
        "GROUP BY d.site",
        key_width=1,
    ),
)


@dataclass(frozen=True)
class Step:
    """What one refresh brought: the clock, what arrived, and every view's rows."""

    number: int
    clock: str
    arrived: int
    by_hand: str | None
    seconds: float
    views: dict[str, tuple[Sequence[str], list[tuple[Any, ...]]]]


@dataclass(frozen=True)
class Verdict:
    """One view against its query run in batch."""

    view: str
    rows: int
    equal: bool

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{self.view}: {rows}, {'equal to' if self.equal else 'DIFFERENT from'} its query run in batch"


def declare(session: Session) -> None:
    """Make the streams, the table with its first rows, and the views."""
    for statement in DECLARATIONS:
        session.sql(statement)
    session.feed("devices", [(device, *names) for device, names in DEVICES.items()], at=START)
    for view in VIEWS:
        session.sql(view.statement)


def play(session: Session) -> Iterator[Step]:
    """Let the minute arrive in steps of six seconds, a refresh after each."""
    chance = random.Random(SEED)
    degrees = {room: chance.randint(26, 34) for room in ROOMS}
    by_hand = _changes_by_hand()
    for number in range(1, STEPS + 1):
        begin = START + (number - 1) * STEP_SECONDS
        arrived = session.feed("losses", _losses(chance, begin))
        # All at one moment: a streamed view is worked out at every moment of its input.
        arrived += session.feed("thermometers", _readings(chance, degrees), at=begin + STEP_SECONDS - 1)
        said, statements = by_hand.get(number, (None, ()))
        for statement in statements:
            session.sql(f"{statement} AT {begin + STEP_SECONDS}")
        done = session.refresh()
        yield Step(
            number=number,
            clock=format_time((begin + STEP_SECONDS) * 1_000_000),
            arrived=arrived,
            by_hand=said,
            seconds=sum(record.seconds for record in done.views),
            views={view.name: _rows(session, session.table(view.name)) for view in VIEWS},
        )


def check(session: Session) -> Iterator[Verdict]:
    """Each view against its query, as multisets of rows."""
    for view in VIEWS:
        kept = _rows(session, session.table(view.name))[1]
        batch = _rows(session, session.sql(view.query))[1]
        yield Verdict(view.name, len(kept), Counter(kept) == Counter(batch))


def _losses(chance: random.Random, begin: int) -> list[tuple[int, int, int, float]]:
    devices = [*DEVICES, UNKNOWN_DEVICE]
    times = sorted(begin + chance.randrange(1, STEP_SECONDS * 1000) / 1000 for _ in range(REPORTS_A_STEP))
    rows = []
    for at in times:
        src, dest = chance.sample(devices, 2)
        rows.append((src, dest, chance.choice((0, 0, 1, 2, 3, 5, 8, 13)), at))
    return rows


def _readings(chance: random.Random, degrees: dict[str, int]) -> list[tuple[str, int]]:
    """Three rooms report anew."""
    rooms = chance.sample(ROOMS, 3)
    for room in rooms:
        degrees[room] += chance.choice((-4, -3, -2, 2, 3, 4))
    return [(room, degrees[room]) for room in rooms]


def _changes_by_hand() -> dict[int, tuple[str, tuple[str, ...]]]:
    """What an operator does meanwhile, by step: the table changes, and a thermometer is taken away."""
    return {
        2: ("core-2 moves to the harbour", ("UPDATE devices SET site = 'harbour' WHERE device = 2",)),
        4: (
            f"device {UNKNOWN_DEVICE} is entered as edge-4: its earlier losses count at once",
            (f"INSERT INTO devices VALUES ({UNKNOWN_DEVICE}, 'edge-4', 'east')",),
        ),
        6: ("the workshop's thermometer is taken away", ("DELETE FROM temperatures WHERE room = 'workshop'",)),
        7: ("edge-1 is switched off and deleted", ("DELETE FROM devices WHERE device = 3",)),
        9: (
            "core-2 is renamed and moves back",
            ("UPDATE devices SET name = 'core-9', site = 'south' WHERE device = 2",),
        ),
    }


def _rows(session: Session, frame: Any) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    table = session.arrow(frame)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.column_names, sorted(rows, key=lambda row: [(value is None, value) for value in row])
