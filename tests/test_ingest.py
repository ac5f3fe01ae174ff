"""Sources: files, ports, rates, and rows fed from Python; exactly once, with what is bad set aside."""

from __future__ import annotations

import json
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import HeadraceError
from headrace.runtime import files as landing_files
from headrace.session import Session
from tests.conftest import Connect, rows, tagged


def write_parquet(path: Path, first: int, count: int) -> None:
    numbers = list(range(first, first + count))
    pq.write_table(pa.table({"id": pa.array(numbers, pa.int32()), "ts": pa.array(numbers, pa.int64())}), path)


def declare_files(session: Session, folder: Path, form: str = "parquet", options: str = "") -> None:
    session.sql(f"REGISTER SOURCE f (id INT, ts BIGINT) FROM FILES '{folder}/*.{form}' FORMAT {form} {options}")
    session.sql("CREATE STREAM s OVER f KEY NULL ORDER BY ts")


def test_files_land_once_across_restarts(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    write_parquet(tmp_path / "a.parquet", 0, 10)
    declare_files(session, tmp_path)
    assert session.refresh().landed == 10
    assert session.refresh().landed == 0
    session.close()
    again = connect()
    write_parquet(tmp_path / "b.parquet", 10, 5)
    assert again.refresh().landed == 5
    assert [row[0] for row in rows(again.sql("SELECT id FROM s ORDER BY id"))] == sorted(range(15), key=str)


def test_two_streams_over_one_source_each_read_all_files(session: Session, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", 0, 3)
    declare_files(session, tmp_path)
    session.refresh()
    session.sql("CREATE STREAM later OVER f KEY (id) ORDER BY ts")
    session.refresh()
    assert len(rows(session.table("later"))) == len(rows(session.table("s"))) == 3


def test_files_by_the_engines_tasks(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many or large files are landed by tasks; a file that proves late is done again with what came before it."""
    monkeypatch.setattr(landing_files, "LARGE", 0)
    for number, first in enumerate((0, 20, 10, 30)):
        path = tmp_path / f"{number}.parquet"
        write_parquet(path, first, 10)
        os.utime(path, (number, number))
    declare_files(session, tmp_path)
    assert session.refresh().landed == 30
    assert sorted(row[0] for row in rows(session.table("s__late"))) == list(range(10, 20))
    assert len(session.sql("SHOW PARTS FROM s").rows) == 3


def test_rows_of_one_time_in_several_files_keep_their_order(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last file wins, whether the driver or the engine's tasks land them."""
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "v": [number], "ts": [5]}), path)
        os.utime(path, (number, number))
    session.sql(f"REGISTER SOURCE f (id INT, v BIGINT, ts BIGINT) FROM FILES '{tmp_path}/*.parquet' FORMAT parquet")
    for name, large in (("by_driver", 1 << 30), ("by_tasks", 0)):
        monkeypatch.setattr(landing_files, "LARGE", large)
        session.sql(f"CREATE STREAM {name} OVER f KEY (id) ORDER BY ts")
        session.refresh()
        assert rows(session.sql(f"SELECT v FROM {name}")) == [(3,)]


def test_a_data_frame_arrives_as_one_unit(session: Session) -> None:
    session.sql("CREATE STREAM s (id BIGINT, ts BIGINT) ORDER BY ts")
    frame = session.spark.sql("SELECT id, 100 - id AS ts FROM range(100)").repartition(4)
    assert session.feed("s", frame) == 100
    assert rows(session.sql("SELECT count(*) FROM s__late")) == [(0,)]


def test_batches_end_at_max_rows_per_batch(session: Session, tmp_path: Path) -> None:
    for number in range(4):
        write_parquet(tmp_path / f"{number}.parquet", number * 10, 10)
    declare_files(session, tmp_path, options="WITH (max_rows_per_batch = 15)")
    session.sql("CREATE VIEW n AS SELECT count(*) AS n FROM s")
    done = session.refresh()
    assert done.landed == 40
    assert rows(session.table("n")) == [(40,)]
    # Each batch is a transaction of its own, with the views refreshed in it.
    assert len(done.views) == 4


@pytest.mark.parametrize("form", ["json", "csv"])
def test_text_files_set_bad_lines_aside(session: Session, tmp_path: Path, form: str) -> None:
    lines = {
        "json": ['{"id": 1, "ts": 1}', '{"id": "x", "ts": 2}', "{", '{"id": 3, "ts": 3}', '{"id": 4}'],
        "csv": ["1,1", "x,2", "1,2,3", "3,3", "4,"],
    }[form]
    (tmp_path / f"a.{form}").write_text("\n".join(lines))
    declare_files(session, tmp_path, form)
    assert session.refresh().landed == 2
    rejected = rows(session.sql("SELECT origin, reason FROM f__rejected"))
    assert [origin.rpartition(":")[2] for origin, _reason in rejected] == ["2", "3", "5"]
    assert "id" in rejected[0][1]
    assert "ts: NULL, but the stream is ordered by it" in rejected[2][1]
    assert {item.name: item.rejected for item in session.status()}["f"] == 3


def test_a_broken_file_is_rejected_whole_and_does_not_stop_the_others(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but not really")
    write_parquet(tmp_path / "b.parquet", 0, 4)
    pq.write_table(pa.table({"id": ["text"], "ts": [1]}), tmp_path / "c.parquet")
    declare_files(session, tmp_path)
    assert session.refresh().landed == 4
    rejected = rows(session.sql("SELECT origin, reason FROM f__rejected"))
    assert [Path(origin).name for origin, _ in rejected] == ["a.parquet", "c.parquet"]


def test_a_keyed_stream_takes_updates_and_tombstones_from_files(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"REGISTER SOURCE c (op STRING, id INT, v STRING, ts BIGINT) FROM FILES '{tmp_path}/*.json' FORMAT json"
    )
    session.sql("CREATE STREAM accounts OVER c KEY (id) ORDER BY ts WITH (op = 'op')")
    changes = [
        ("c", 1, "a", 1),
        ("c", 2, "b", 2),
        ("u", 1, "A", 3),
        ("d", 2, None, 4),
        ("d", 9, None, 5),
        ("?", 1, "", 6),
    ]
    text = "\n".join(json.dumps(dict(zip(("op", "id", "v", "ts"), change, strict=True))) for change in changes)
    (tmp_path / "x.json").write_text(text)
    session.refresh()
    found = [(row[0], row[1], row[2], row[-1]) for row in tagged(session.changes("accounts"))]
    assert found == [("+", 1, "a", 1), ("+", 2, "b", 2), ("u", 1, "A", 3), ("-", 2, None, 4)]
    assert "is no operation" in rows(session.sql("SELECT reason FROM c__rejected"))[0][0]


def send(port: int, *lines: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(("\n".join(lines) + "\n").encode())


def land_until(session: Session, count: int) -> int:
    landed = 0
    for _ in range(200):
        landed += session.refresh().landed
        if landed >= count:
            break
        threading.Event().wait(0.02)
    return landed


def test_a_port_takes_json_and_csv_from_many_clients(session: Session, free_port: int) -> None:
    session.sql(f"REGISTER SOURCE p (room STRING, temp INT) FROM PORT {free_port}")
    session.sql("CREATE STREAM s OVER p KEY (room)")
    clients = [
        threading.Thread(target=send, args=(free_port, f'{{"room": "j{n}", "temp": {n}}}', f"c{n},{n}", "bad,line,x"))
        for n in range(5)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert land_until(session, 10) == 10
    assert len(rows(session.table("s"))) == 10
    assert len(rows(session.table("p__rejected"))) == 5
    assert {item.name: item.rejected for item in session.status()}["p"] == 5


def test_rows_of_a_failed_refresh_stay_at_the_port(session: Session, free_port: int) -> None:
    session.sql(f"REGISTER SOURCE p (v INT) FROM PORT {free_port}; CREATE STREAM s OVER p KEY NULL")
    session.sql("CREATE VIEW bad AS SELECT CAST(if(v = 0, 'x', '1') AS INT) AS q FROM s")
    send(free_port, "0", "5")
    for _ in range(100):
        try:
            session.refresh()
        except HeadraceError:
            break
        threading.Event().wait(0.02)
    assert rows(session.table("s")) == []
    session.sql("DROP VIEW bad")
    assert land_until(session, 2) == 2


def test_a_port_in_use_declares_nothing(session: Session) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        session.sql(f"REGISTER SOURCE p (v INT) FROM PORT {taken.getsockname()[1]}")
        with pytest.raises(HeadraceError) as raised:
            session.sql("CREATE STREAM s OVER p KEY NULL")
    assert raised.value.condition == "PORT_IN_USE"
    assert session.sql("SHOW STREAMS").rows == [row for row in session.sql("SHOW STREAMS").rows if row[0] != "s"]


def test_rate_follows_the_clock_exactly(connect: Connect) -> None:
    session = connect()
    session.sql("ALTER CLOCK SET manual; REGISTER SOURCE r (n BIGINT, x DOUBLE, at TIMESTAMP) FROM RATE 10")
    session.sql("CREATE STREAM s OVER r KEY NULL")
    session.refresh()
    session.advance(1)
    session.refresh()
    session.close()
    again = connect()
    again.advance(2)
    again.refresh()
    found = rows(again.sql("SELECT n, at FROM s"))
    assert sorted(row[0] for row in found) == list(range(20))


def test_feed_takes_rows_pandas_arrow_and_spark(session: Session) -> None:
    session.sql("CREATE STREAM s (a INT, b STRING, ts TIMESTAMP) ORDER BY ts")
    when = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert session.feed("s", [(1, "x", 1), {"B": "y", "a": 2, "ts": "1970-01-01T00:00:02Z"}]) == 2
    assert session.feed("s", pd.DataFrame({"a": [3], "b": [None], "ts": pd.to_datetime([3], unit="s")})) == 1
    assert (
        session.feed("s", pa.table({"b": ["z"], "a": [4], "ts": pa.array([4_000_000], pa.timestamp("us", "UTC"))})) == 1
    )
    assert session.feed("s", session.spark.sql("SELECT 5 AS a, 'w' AS b, timestamp_seconds(5) AS ts")) == 1
    found = rows(session.table("s"))
    assert [row[0] for row in found] == [1, 2, 3, 4, 5]
    assert found[2][1] is None
    assert found[4][2] == when
    assert session.feed("s", []) == 0


@pytest.mark.parametrize(
    ("given", "condition", "words"),
    [
        ([("x", "b", 1)], "BAD_VALUE", "Row 1, column a: 'x' is not a INT"),
        ([(1, "b", 1), (3_000_000_000, "b", 1)], "BAD_VALUE", "Row 2, column a: 3000000000"),
        ([(1.5, "b", 1)], "BAD_VALUE", "column a: 1.5"),
        ([(True, "b", 1)], "BAD_VALUE", "column a: True"),
        ([(1, b"b", 1)], "BAD_VALUE", "column b"),
        ([(1, "b", "yesterday")], "BAD_VALUE", "column ts: 'yesterday' is not a TIMESTAMP"),
        ([(1, "b")], "WRONG_ROW_LENGTH", "Row 1 has 2 values; 3 columns"),
        ([{"a": 1, "c": 2}], "UNKNOWN_COLUMN", "Row 1 has a column c that is not declared"),
        (["abc"], "BAD_ROW", "neither a mapping nor a sequence"),
        ([(1, "b", None)], "BAD_VALUE", "ts: NULL, but the stream is ordered by it"),
        (pd.DataFrame({"a": [1]}), "MISSING_COLUMN", "no column b"),
        (pa.table({"a": ["q"], "b": ["b"], "ts": [1]}), "BAD_VALUE", "column a: 'q'"),
    ],
)
def test_bad_rows_are_refused_with_their_place(session: Session, given: object, condition: str, words: str) -> None:
    session.sql("CREATE STREAM s (a INT, b STRING, ts TIMESTAMP) ORDER BY ts")
    with pytest.raises(HeadraceError) as raised:
        session.feed("s", given)
    assert raised.value.condition == condition
    assert words in str(raised.value)
    assert rows(session.table("s")) == []


def test_a_source_without_a_stream_takes_nothing(session: Session) -> None:
    session.sql("REGISTER SOURCE m (a INT) FROM MEMORY")
    with pytest.raises(HeadraceError, match="No stream takes rows from m"):
        session.sql("INSERT INTO m VALUES (1)")
    with pytest.raises(HeadraceError, match="raw source"):
        session.sql("SELECT * FROM m")


@pytest.mark.needs("structured_streaming")
def test_structured_streaming_rate(connect: Connect) -> None:
    session = connect()
    session.sql(
        "REGISTER SOURCE r (value BIGINT, timestamp TIMESTAMP) FROM STREAMING 'rate-micro-batch'"
        " OPTIONS (rowsPerBatch 5, numPartitions 1)"
    )
    session.sql("CREATE STREAM s OVER r KEY NULL")
    session.refresh()
    session.refresh()
    session.close()
    again = connect()
    again.refresh()
    found = sorted(row[0] for row in rows(again.sql("SELECT value FROM s")))
    assert found == list(range(len(found)))
    assert len(found) >= 15


@pytest.mark.needs("structured_streaming")
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_structured_streaming_files(connect: Connect, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    session = connect()
    session.sql(
        f"REGISTER SOURCE f (id INT, ts BIGINT) FROM STREAMING '{form}' OPTIONS (path '{folder}', maxFilesPerTrigger 1)"
    )
    session.sql("CREATE STREAM s OVER f KEY NULL")  # Spark may read files of one second in any order
    for number in range(3):
        path = folder / f"{number}.{form}"
        if form == "parquet":
            write_parquet(path, number * 2, 2)
        elif form == "json":
            path.write_text("\n".join(json.dumps({"id": n, "ts": n}) for n in (number * 2, number * 2 + 1)))
        else:
            path.write_text("\n".join(f"{n},{n}" for n in (number * 2, number * 2 + 1)))
    session.refresh()
    session.close()
    again = connect()
    again.refresh()
    assert sorted(row[0] for row in rows(again.table("s"))) == list(range(6))


@pytest.mark.needs("structured_streaming")
def test_a_replayed_batch_is_passed_over(connect: Connect, tmp_path: Path) -> None:
    """Spark may deliver a batch again after a crash; the catalog knows it landed."""
    from headrace.runtime.streaming import _Lander

    session = connect()
    session.sql("REGISTER SOURCE r (value BIGINT) FROM STREAMING 'rate'; CREATE STREAM s OVER r KEY NULL")
    lander = _Lander(session._home, session._home.snapshot().find("r"))
    frame = session.spark.sql("SELECT CAST(1 AS BIGINT) AS value")
    lander.batch(frame, 0)
    lander.batch(frame, 0)
    lander.batch(frame, 1)
    assert len(rows(session.table("s"))) == 2


@pytest.mark.needs("structured_streaming")
def test_structured_streaming_rate_by_the_wall_clock(connect: Connect) -> None:
    """Spark's own rate source: how many rows come depends on the time, but each comes once and none is missing."""
    session = connect()
    session.sql(
        "REGISTER SOURCE r (value BIGINT, timestamp TIMESTAMP) FROM STREAMING 'rate' OPTIONS (rowsPerSecond 20)"
    )
    session.sql("CREATE STREAM s OVER r KEY NULL")
    landed = land_until(session, 1)
    session.close()
    again = connect()
    landed += land_until(again, 1)
    found = sorted(row[0] for row in rows(again.sql("SELECT value FROM s")))
    assert found == list(range(landed))
