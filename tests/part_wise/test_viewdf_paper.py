"""The ViewDF paper's own view delta functions, written as printed there, with the results it tells.

`loss > 10` over the sample data of section 2; sums and maxima over the five minutes of Figure 5.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.session import Session
from tests.conftest import rows

#: 2015-01-01 10:00, where the sample data begin, as a part of one minute.
TEN = int(datetime(2015, 1, 1, 10, tzinfo=UTC).timestamp()) // 60
LOSSES = [6, 12, 15, 24, 20, 16, 7]

M = "CREATE STREAM M (ts TIMESTAMP, src INT, dest INT, loss INT) ORDER BY ts LATE MERGE PARTITION LENGTH 60"

HELPER = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT src, dest, 1 AS ct, loss AS sum_loss
  FROM M[i]
  WHERE loss>10
UPDATE Helper[j] AS
  SELECT src, dest, ct+1, sum_loss+loss
  FROM (
    SELECT New.src AS src,
          New.dest AS dest,
          Prev.ct AS ct,
          Prev.sum_loss AS sum_loss,
          New.loss AS loss
    FROM M[j] AS New
    LEFT OUTER JOIN Helper[j-1] AS Prev
    WHERE New.loss>10 )
PARTITION LENGTH 60
"""

VIEW2 = """
CREATE VIEW View2 AS
INITIALIZE View2[i] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[i]
  WHERE ct >= 4
UPDATE View2[j] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[j]
  WHERE ct >= 4
PARTITION LENGTH 60
"""

# As Algorithm 2 prints it, but for its last clause: `WHERE state <> 0` there means the state that is just computed,
# which SQL can only say around the SELECT. The comma before FROM is the paper's.
HELPER_OF_STATES = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT New.src AS src, New.dest AS dest,
  New.loss AS sum_loss, 1 AS ct, 1 AS state
  FROM InputStream[i] AS New WHERE New.loss > 10
UPDATE Helper[j] AS
  SELECT * FROM (
  SELECT New.src, New.dest,
  Prev.sum_loss + New.loss AS sum_loss, 1 + ct AS ct,
  CASE WHEN state = 0 and New.loss > 10 THEN state + 1
        WHEN state = 1 and New.loss > 10 THEN state + 1
        WHEN state = 2 and New.loss > 10 THEN state + 1
        WHEN state = 3 and New.loss > 10 THEN state + 1
        WHEN state = 4 and New.loss > 10 THEN state
  END AS state,
  FROM (
    SELECT *
    FROM InputStream[j] AS New
    LEFT OUTER JOIN Helper[j-1] AS Prev))
  WHERE state <> 0
PARTITION LENGTH 60
"""

VIEW4 = """
CREATE VIEW View4 AS
INITIALIZE View4[i] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[i]
  WHERE state=4
UPDATE View4[j] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[j]
  WHERE state=4
PARTITION LENGTH 60
"""


def minute(session: Session, stream: str, number: int, loss: int, src: int = 1, dest: int = 2) -> None:
    session.feed(stream, [(datetime.fromtimestamp((TEN + number) * 60, UTC), src, dest, loss)])
    session.refresh()


def part(session: Session, view: str, number: int) -> list[tuple[object, ...]]:
    return rows(session.sql(f"SELECT * FROM {view}[{TEN + number}]"))


@pytest.mark.parametrize(
    ("stream", "statements", "view"),
    [("M", [HELPER, VIEW2], "View2"), ("InputStream", [HELPER_OF_STATES, VIEW4], "View4")],
)
def test_section_2_four_consecutive_minutes(session: Session, stream: str, statements: list[str], view: str) -> None:
    """View2 over the first Helper, and View4 over that of 5.1.2."""
    session.sql(M.replace("STREAM M", f"STREAM {stream}"))
    for statement in statements:
        session.sql(statement)
    found = {}
    for number, loss in enumerate(LOSSES):
        minute(session, stream, number, loss)
        found[number] = part(session, view, number)
    assert found == {0: [], 1: [], 2: [], 3: [], 4: [(1, 2, 4, 71)], 5: [(1, 2, 5, 87)], 6: []}


def test_section_4_2_an_old_part_by_its_timestamp(session: Session) -> None:
    session.sql(M)
    session.sql(HELPER)
    session.sql(VIEW2)
    for number, loss in enumerate(LOSSES):
        minute(session, "M", number, loss)
    found = session.sql('SELECT * FROM View2 WHERE PART_TIMESTAMP="2015/01/01 10:04"')
    assert rows(found) == [(1, 2, 4, 71)]
    assert rows(session.sql(f"SELECT ct FROM View2[{TEN}..{TEN + 6}]")) == [(4,), (5,)]
    assert rows(session.sql("SELECT ct FROM View2 AS OF TIMESTAMP '2015-01-01 10:04:59'")) == [(4,)]


def test_section_4_3_late_data(session: Session) -> None:
    """Figure 3: late rows in M[5] while M[9] arrives. Helper[6] and those after it follow from Helper[5]."""
    session.sql(M)
    session.sql(HELPER)
    session.sql(VIEW2)
    for number in range(9):
        minute(session, "M", number, 20)
    minute(session, "M", 9, 20)
    late = [(datetime.fromtimestamp((TEN + 5) * 60 + 1, UTC), 3, 4, 50)]
    session.feed("M", late)
    done = session.refresh()
    reasons = [record.reason for record in done.views]
    assert reasons == [
        f"made parts {TEN + 5} to {TEN + 6} again, of which part {TEN + 5} changed",
        f"made part {TEN + 5} again, of which none changed",
    ]
    assert part(session, "Helper", 5) == [(1, 2, 6, 120), (3, 4, 1, 50)]
    assert part(session, "Helper", 6) == [(1, 2, 7, 140)]


def test_section_4_2_hours_of_minutes(session: Session) -> None:
    """View3: the first part of an hour view over minutes is M's newest subscript divided by 60, rounded down."""
    session.sql(M)
    for number in range(0, 61, 20):
        minute(session, "M", number, number)
    session.sql(
        """
        CREATE VIEW View3 AS
        INITIALIZE View3[i] AS
            SELECT src, dest, sum(loss) as sum_loss
            FROM M[i*60-59 .. i*60]
            GROUP BY src, dest
        UPDATE View3[j] AS
            SELECT src, dest, sum(loss) as sum_loss
            FROM M[j*60-59 .. j*60]
            GROUP BY src, dest
        PARTITION LENGTH 3600
        """
    )
    hour = TEN // 60 + 1
    assert rows(session.sql(f"SELECT sum_loss FROM View3[{hour}]")) == [(120,)]
    minute(session, "M", 119, 5)
    assert rows(session.sql("SELECT sum_loss FROM View3")) == [(120,)], "View3 still waits for the last minute"
    minute(session, "M", 120, 7)
    assert rows(session.sql(f"SELECT sum_loss FROM View3[{hour + 1}]")) == [(12,)]


def test_section_4_2_a_band_join(session: Session) -> None:
    """J: a natural join of what two streams have in one minute; the slower one decides which part is next."""
    session.sql(
        """
        CREATE STREAM M (ts TIMESTAMP, k INT, a INT) ORDER BY ts PARTITION LENGTH 60;
        CREATE STREAM N (at TIMESTAMP, k INT, b INT) ORDER BY at PARTITION LENGTH 60;
        """
    )
    session.feed("M", [(30, 1, 10), (70, 1, 11), (130, 2, 12)])
    session.feed("N", [(40, 1, 20), (65, 1, 21)])
    session.sql(
        """
        CREATE VIEW J AS
        INITIALIZE J[i] AS
            SELECT *
            FROM M[i] NATURAL JOIN N[i]
        UPDATE J[j] AS
            SELECT *
            FROM M[j] NATURAL JOIN N[j]
        PARTITION LENGTH 60
        """
    )
    assert rows(session.sql("SELECT k, a, b FROM J")) == [(1, 11, 21)], "N has parts up to 1, M up to 2"
    session.feed("N", [(179, 2, 22), (180, 2, 23)])
    session.refresh()
    assert rows(session.sql("SELECT k, a, b FROM J[2]")) == [(2, 12, 22)]
    assert rows(session.sql("SELECT k, a, b FROM J[3]")) == []


FIGURE5 = {1: [3, 5, 2], 2: [7, 1], 3: [4, 4], 4: [6], 5: [2, 9]}
VIEW5 = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT G, max(A) as max_A
  FROM S[i]
  GROUP BY G
UPDATE Helper[j] AS
  SELECT G, max(A)
  FROM S[j]
  GROUP BY G
PARTITION LENGTH 60;

CREATE VIEW View5 AS
INITIALIZE View5[i] AS
  SELECT G, max(max_A) as max_A
  FROM Helper[i-4+1..i]
  GROUP BY G
  HAVING count(*) > 0
UPDATE View5[j] AS
  SELECT G, max(max_A)
  FROM Helper[j-4+1..j]
  GROUP BY G
  HAVING count(*) > 0
PARTITION LENGTH 60
"""
VIEW6 = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT G, sum(A) AS sum_A
  FROM S[i]
  GROUP BY G
UPDATE Helper[j] AS
  SELECT G, sum(Temp_Sum) AS sum_A
  FROM (
    SELECT G, sum(A) AS Temp_Sum
    FROM S[j]
    GROUP BY G
    UNION ALL
    SELECT G, sum_A AS Temp_Sum
    FROM Helper[j-1]
  ) AS Temp
  GROUP BY G
PARTITION LENGTH 60;

CREATE VIEW View6
INITIALIZE View6[i] AS
  SELECT Temp.G, sum(Temp.Temp_Sum) AS sum_A
  FROM (
    SELECT G, sum_A AS Temp_Sum
    FROM Helper[i]
    UNION ALL
    SELECT G, sum_A*(-1) AS Temp_Sum
    FROM Helper[i-4]
  ) AS Temp
  GROUP BY G
  HAVING sum_A>0 AND sum_A<1000

UPDATE VIEW View6[j] AS
  SELECT Temp.G, sum(Temp.Temp_Sum) AS sum_A
  FROM (
    SELECT G, sum_A AS Temp_Sum
    FROM Helper[j]
    UNION ALL
    SELECT G, sum_A*(-1) AS Temp_Sum
    FROM Helper[j-4]
  ) AS Temp
  GROUP BY G
  HAVING sum_A>0 AND sum_A<1000
PARTITION LENGTH 60
"""


@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        (VIEW5, "View5", {4: [(1, 7)], 5: [(1, 9)]}),
        # The cumulative sum of minute 1 is needed for minutes 2 to 5, so this is the first window View6 can tell.
        (VIEW6, "View6", {5: [(1, 33)], 6: [(1, 25)]}),
    ],
)
def test_figure_5_a_window_of_four_minutes(
    session: Session, text: str, view: str, expected: dict[int, list[tuple[int, int]]]
) -> None:
    session.sql("CREATE STREAM S (ts TIMESTAMP, G INT, A INT) ORDER BY ts PARTITION LENGTH 60")
    session.sql(text)
    for number, values in FIGURE5.items():
        session.feed("S", [(number * 60, 1, value) for value in values])
        session.refresh()
    if view == "View6":
        session.feed("S", [(6 * 60, 2, 0)])
        session.refresh()
    found = {number: rows(session.sql(f"SELECT * FROM {view}[{number}]")) for number in range(7)}
    assert {number: part for number, part in found.items() if part} == expected


def test_section_6_a_price_above_the_one_before(session: Session) -> None:
    """Sequences that span parts: with the part before among those that are read, 11:00 is found as well."""
    session.sql("CREATE STREAM Q (ts TIMESTAMP, stock STRING, price DECIMAL(8, 2)) ORDER BY ts PARTITION LENGTH 3600")

    def at(hour: int, minutes: int) -> datetime:
        return datetime(2015, 1, 1, hour, minutes, tzinfo=UTC)

    rises = """
        CREATE VIEW {view} AS
        INITIALIZE {view}[i] AS SELECT ts, stock FROM (
            SELECT *, lag(price) OVER (PARTITION BY stock ORDER BY ts) AS before FROM Q[i]) WHERE price > before
        UPDATE {view}[j] AS SELECT ts, stock FROM (
            SELECT *, lag(price) OVER (PARTITION BY stock ORDER BY ts) AS before FROM Q[{parts}]) AS read
            WHERE price > before{only}
        PARTITION LENGTH 3600
        """
    session.sql(rises.format(view="Rises", parts="j", only=""))
    session.sql(rises.format(view="Across", parts="j-1..j", only=" AND ts >= date_trunc('HOUR', newest)").replace(
        "AS before FROM Q[j-1..j]", "AS before, max(ts) OVER () AS newest FROM Q[j-1..j]"))  # fmt: skip
    session.feed("Q", [(at(10, 58), "Acme", "5.00"), (at(10, 59), "Acme", "4.95")])
    session.refresh()
    session.feed("Q", [(at(11, 0), "Acme", "4.97"), (at(11, 1), "Acme", "4.98")])
    session.refresh()
    assert rows(session.sql("SELECT minute(ts) FROM Rises")) == [(1,)]
    assert rows(session.sql("SELECT minute(ts) FROM Across")) == [(0,), (1,)]
