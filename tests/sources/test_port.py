"""The port: many clients, bounded memory, two-phase hand-over, acknowledgement. Loopback and free ports only."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from headrace.errors import InputError
from headrace.sources.lines import LineOptions
from headrace.sources.port import Arrival, PortListener

SCHEMA = pa.schema([("Sensor", pa.string()), ("Temperature", pa.int32())])
PATIENCE = 10.0


@pytest.fixture
def listener() -> Iterator[PortListener]:
    with PortListener(0, SCHEMA) as running:
        yield running


def connect(listener: PortListener) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE)


def send(listener: PortListener, data: bytes) -> None:
    with connect(listener) as client:
        client.sendall(data)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


def arrive(listener: PortListener, lines: int, max_rows: int = 131_072) -> Arrival:
    assert listener.wait(lines, PATIENCE), listener.pending
    return listener.take(max_rows)


def sensors(arrival: Arrival) -> list[str]:
    return list(arrival.parsed.table["Sensor"].to_pylist())


def test_csv_and_json_lines_of_one_client(listener: PortListener) -> None:
    before = time.time_ns() // 1000
    send(listener, b'a,1\r\n{"sensor":"b","temperature":2}\n\n["c",3]\nd,4\n')
    arrival = arrive(listener, 5)
    assert sensors(arrival) == ["a", "b", "c", "d"]
    times = arrival.arrived_at_micros.to_pylist()
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time_ns() // 1000
    listener.commit()
    assert listener.pending.rows == listener.pending.bytes == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a", "expected 2 fields, got 1"),
        (b"a,1,2", "expected 2 fields, got 3"),
        (b"a,hot", "Temperature: expected INT, got 'hot'"),
        (b"a,99999999999", "Temperature: 99999999999 is out of range for INT (-2147483648 to 2147483647)"),
        (b'"a,1', "field 1: unterminated quote (a field cannot span lines)"),
        (b'"a"b,1', 'field 1: text after the closing quote (write a quote inside a field as "")'),
        (b"\xff\xfe,1", "not UTF-8: byte 0xff at position 1"),
        (b'{"sensor":"a"', "not JSON: Expecting ',' delimiter at character 14"),
        (b'{"sensor":1}', "Sensor: expected STRING, got 1"),
        (b'{"humidity":1}', "unknown field 'humidity'; the fields are Sensor, Temperature"),
        (b'["a"]', "expected 2 values in the array, got 1"),
        (b"GET / HTTP/1.1", "expected 2 fields, got 1"),
        (b"x" * (1 << 20) + b"y", "line of 1048577 bytes is over the limit of 1 MiB"),
    ],
)
def test_malformed_lines_are_rejected_between_good_ones(listener: PortListener, line: bytes, reason: str) -> None:
    send(listener, b"before,1\n" + line + b"\nafter,2\n")
    arrival = arrive(listener, 3)
    assert sensors(arrival) == ["before", "after"]
    assert [(one.position, one.reason) for one in arrival.parsed.rejected] == [(1, reason)]


def test_a_long_line_is_thrown_away_as_it_streams(listener: PortListener) -> None:
    with connect(listener) as client:
        client.sendall(b"a,1\n")
        for _ in range(64):
            client.sendall(b"z" * (1 << 18))
        assert listener.pending.bytes < 1 << 20
        client.sendall(b"\nb,2\n")
    arrival = arrive(listener, 3)
    assert sensors(arrival) == ["a", "b"]
    (rejected,) = arrival.parsed.rejected
    assert rejected.reason == f"line of {64 << 18} bytes is over the limit of 1 MiB"
    assert len(rejected.line) <= 4097


def test_binary_garbage_does_no_harm(listener: PortListener) -> None:
    garbage = bytes(range(256)) * 400
    with connect(listener) as client:
        client.sendall(garbage)
    send(listener, b"good,1\n")
    arrival = arrive(listener, 402)  # one line end in each 256 bytes, the unfinished rest, and the good line
    assert "good" in sensors(arrival)
    assert len(arrival.parsed.rejected) >= 400


def test_many_clients_at_once_lose_nothing(listener: PortListener) -> None:
    clients, each = 24, 500

    def run(number: int) -> None:
        with connect(listener) as client:
            for start in range(0, each, 50):
                client.sendall(b"".join(b"c%d,%d\n" % (number, i) for i in range(start, start + 50)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    got: list[dict[str, object]] = []
    deadline = time.monotonic() + 3 * PATIENCE
    while len(got) < clients * each and time.monotonic() < deadline:
        listener.wait(1, 0.2)
        got += listener.take(700).parsed.table.to_pylist()
        listener.commit()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(got) == clients * each
    for number in range(clients):
        assert [row["Temperature"] for row in got if row["Sensor"] == f"c{number}"] == list(range(each))


def test_a_full_queue_slows_the_sender_and_a_commit_frees_it() -> None:
    total = 40_000
    with PortListener(0, SCHEMA, limit_rows=1000, limit_bytes=1 << 20) as listener:
        done = threading.Event()

        def run() -> None:
            with connect(listener) as client:
                client.settimeout(60)
                for start in range(0, total, 100):
                    client.sendall(b"".join(b"%0500d,%d\n" % (0, i) for i in range(start, start + 100)))
            done.set()

        threading.Thread(target=run, daemon=True).start()
        assert listener.wait(1000, PATIENCE)
        time.sleep(0.3)
        most = listener.pending
        assert most.rows < 1000 + 2 * 64 * 1024 // 500  # one read over the limit
        assert not done.is_set()
        got: list[int] = []
        deadline = time.monotonic() + 6 * PATIENCE
        while len(got) < total and time.monotonic() < deadline:
            listener.wait(1, 0.2)
            got += listener.take().parsed.table["Temperature"].to_pylist()
            listener.commit()
        assert got == list(range(total))
        assert done.wait(PATIENCE)


def test_back_pressure_by_bytes() -> None:
    with PortListener(0, SCHEMA, limit_bytes=200_000) as listener:
        with connect(listener) as client:
            client.settimeout(1.0)
            with pytest.raises(TimeoutError):
                client.sendall((b"%0999d,1\n" % 0) * 40_000)
        assert listener.pending.bytes < 200_000 + 2 * 65_536


def test_take_is_in_two_phases(listener: PortListener) -> None:
    send(listener, b"".join(b"s%d,%d\n" % (i, i) for i in range(10)))
    first = arrive(listener, 10, max_rows=4)
    assert sensors(first) == ["s0", "s1", "s2", "s3"]
    assert (listener.pending.rows, listener.pending.taken_rows) == (6, 4)
    with pytest.raises(InputError) as caught:
        listener.take()
    assert caught.value.condition == "TAKE_OPEN"
    listener.rollback()
    assert listener.pending.rows == 10
    again = listener.take(6)
    assert sensors(again) == [f"s{i}" for i in range(6)]
    assert again.arrived_at_micros.to_pylist()[:4] == first.arrived_at_micros.to_pylist()
    listener.commit()
    assert sensors(listener.take()) == ["s6", "s7", "s8", "s9"]
    listener.commit()
    for call in (listener.commit, listener.rollback):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.condition == "NO_TAKE_OPEN"


def test_an_empty_take(listener: PortListener) -> None:
    arrival = listener.take()
    assert arrival.parsed.table.num_rows == len(arrival.arrived_at_micros) == 0
    listener.commit()


@pytest.mark.parametrize(
    ("tail", "rows", "reasons"),
    [
        (b"b,2", ["a", "b"], []),
        (b"b", ["a"], ["expected 2 fields, got 1 (the client disconnected before the end of the line)"]),
        (b"z" * 1_200_000, ["a"], ["line of 1200000 bytes is over the limit of 1 MiB"]),
    ],
)
def test_a_client_that_leaves_in_the_middle_of_a_line(
    listener: PortListener, tail: bytes, rows: list[str], reasons: list[str]
) -> None:
    send(listener, b"a,1\n" + tail)
    arrival = arrive(listener, 2)
    assert sensors(arrival) == rows
    assert [one.reason for one in arrival.parsed.rejected] == reasons


def test_a_client_that_resets_harms_no_other(listener: PortListener) -> None:
    with connect(listener) as other:
        rude = connect(listener)
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        rude.sendall(b"a,1\n")
        assert listener.wait(1, PATIENCE)
        rude.close()
        until(lambda: listener.pending.connections == 1)
        other.sendall(b"b,2\n")
        assert sensors(arrive(listener, 2)) == ["a", "b"]


class Acknowledged:
    """A sender that asked for answers."""

    def __init__(self, listener: PortListener) -> None:
        self.sock = connect(listener)
        self.answers = self.sock.makefile("rb")

    def close(self) -> None:
        self.answers.close()
        self.sock.close()


@pytest.fixture
def sender(listener: PortListener) -> Iterator[Acknowledged]:
    made = Acknowledged(listener)
    yield made
    made.close()


def test_each_commit_is_acknowledged(listener: PortListener, sender: Acknowledged) -> None:
    sender.sock.sendall(b"a,1\n#ack on\r\nb,2\nbad\n\n")
    arrive(listener, 4, max_rows=3)
    listener.rollback()
    listener.take(3)
    listener.commit()
    assert sender.answers.readline() == b"ok 3\n"
    listener.take()
    listener.commit()
    assert sender.answers.readline() == b"ok 4\n"
    sender.sock.sendall(b"c,3\n")
    arrive(listener, 1)
    listener.commit()
    assert sender.answers.readline() == b"ok 5\n"


def test_a_sender_that_did_not_ask_is_not_answered(listener: PortListener, sender: Acknowledged) -> None:
    with connect(listener) as quiet:
        quiet.sendall(b"q,1\n")
        sender.sock.sendall(b"#ack on\na,1\n")
        assert listener.wait(2, PATIENCE)
        listener.take()
        listener.commit()
        assert sender.answers.readline() == b"ok 1\n"
        quiet.settimeout(0.1)
        with pytest.raises(TimeoutError):
            quiet.recv(10)


def test_a_commit_without_lines_of_a_sender_says_nothing_to_it(listener: PortListener, sender: Acknowledged) -> None:
    sender.sock.sendall(b"#ack on\n")
    send(listener, b"other,1\n")
    arrive(listener, 1)
    listener.commit()
    sender.sock.sendall(b"a,1\n")
    arrive(listener, 1)
    listener.commit()
    assert sender.answers.readline() == b"ok 1\n"


def test_the_last_lines_are_acknowledged_after_the_sender_said_all(
    listener: PortListener, sender: Acknowledged
) -> None:
    sender.sock.sendall(b"#ack on\na,1\nb,2\n")
    sender.sock.shutdown(socket.SHUT_WR)
    assert listener.wait(2, PATIENCE)
    until(lambda: listener.pending.connections == 0)
    listener.take(1)
    listener.commit()
    listener.take(1)
    listener.commit()
    assert sender.answers.read() == b"ok 1\nok 2\n"  # and then the connection is closed


def test_lines_are_acknowledged_after_stop(listener: PortListener, sender: Acknowledged) -> None:
    sender.sock.sendall(b"#ack on\na,1\n")
    assert listener.wait(1, PATIENCE)
    listener.stop()
    assert sensors(listener.take()) == ["a"]
    listener.commit()
    assert sender.answers.read() == b"ok 1\n"


@pytest.mark.parametrize("tail", [b"b,2", b"b", b"z" * 1_200_000])
def test_an_acknowledged_sender_sends_its_unfinished_line_again(
    listener: PortListener, sender: Acknowledged, tail: bytes
) -> None:
    sender.sock.sendall(b"#ack on\na,1\n" + tail)
    sender.sock.shutdown(socket.SHUT_WR)
    until(lambda: listener.pending.rows == 1 and listener.pending.connections == 0)
    arrival = listener.take()
    assert sensors(arrival) == ["a"]
    assert arrival.parsed.rejected == []
    listener.commit()
    assert sender.answers.read() == b"ok 1\n"


def test_an_acknowledged_line_cut_by_stop_is_not_acknowledged(listener: PortListener, sender: Acknowledged) -> None:
    sender.sock.sendall(b"#ack on\na,1\nb,2")
    until(lambda: any(one.framer.held_bytes for one in listener._connections))
    listener.stop()
    arrival = listener.take()
    assert (sensors(arrival), arrival.parsed.rejected) == (["a"], [])
    listener.commit()
    assert sender.answers.read() == b"ok 1\n"


def test_an_unfinished_line_is_dropped_also_when_answers_cannot_be_sent(
    listener: PortListener, sender: Acknowledged
) -> None:
    sender.sock.sendall(b"#ack on\na,1\nb,2")
    until(lambda: any(one.framer.held_bytes for one in listener._connections))
    (connection,) = listener._connections
    connection.deaf = True
    sender.sock.shutdown(socket.SHUT_WR)
    until(lambda: not listener._connections)
    assert sensors(listener.take()) == ["a"]


def test_a_sender_that_left_does_not_stop_a_commit(listener: PortListener) -> None:
    made = Acknowledged(listener)
    made.sock.sendall(b"#ack on\na,1\nb,2\n")
    assert listener.wait(2, PATIENCE)
    made.close()
    for _ in range(2):
        listener.take(1)
        listener.commit()
    until(lambda: not listener._connections)


def test_a_sender_that_reads_no_answers_holds_nothing_up(listener: PortListener, sender: Acknowledged) -> None:
    sender.sock.sendall(b"#ack on\n" + b"a,1\n" * 300)
    assert listener.wait(300, PATIENCE)
    (connection,) = listener._connections
    real = connection.sock

    class Blocked:
        def send(self, data: bytes) -> int:
            raise BlockingIOError

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    connection.sock = Blocked()  # type: ignore[assignment]
    for _ in range(300):
        listener.take(1)
        listener.commit()
    assert len(connection.unsent) < 32
    connection.sock = real
    until(lambda: not connection.unsent)
    assert sender.answers.readline() == b"ok 1\n"
    assert sender.answers.readline() == b"ok 300\n"


def test_stop_takes_what_has_arrived_and_no_half_line(listener: PortListener) -> None:
    with connect(listener) as client:
        client.sendall(b"a,1\nb,2")
        assert listener.wait(1, PATIENCE)
        until(lambda: any(one.framer.held_bytes for one in listener._connections))
        listener.stop()
        arrival = listener.take()
    assert sensors(arrival) == ["a"]
    assert [one.reason for one in arrival.parsed.rejected] == ["the listener stopped before the end of the line"]
    with pytest.raises(OSError):
        connect(listener)


def test_stop_drains_the_sockets_of_a_full_queue() -> None:
    with PortListener(0, SCHEMA, limit_rows=1) as listener:
        with connect(listener) as client:
            client.sendall(b"a,1\n")
            assert listener.wait(1, PATIENCE)
            client.sendall(b"b,2\n" * 1000)
            time.sleep(0.1)
            assert listener.pending.rows == 1
            listener.stop()
        assert listener.take().parsed.table.num_rows == 1001


def test_header_of_each_connection() -> None:
    with PortListener(0, SCHEMA, "csv", options=LineOptions(header=True)) as listener:
        for name in (b"a", b"b"):
            send(listener, b"\xef\xbb\xbfSensor,Temperature\n" + name + b",1\n")
        arrival = arrive(listener, 4)
        assert sorted(sensors(arrival)) == ["a", "b"]
        assert arrival.parsed.rejected == []


def test_no_more_clients_than_allowed() -> None:
    with PortListener(0, SCHEMA, max_connections=2) as listener:
        clients = [connect(listener) for _ in range(4)]
        for number, client in enumerate(clients):
            client.sendall(b"c%d,1\n" % number)
        assert listener.wait(2, PATIENCE)
        time.sleep(0.1)
        assert listener.pending.connections == 2
        for client in clients:
            client.close()
        assert len(sensors(arrive(listener, 4))) == 4


def test_a_port_in_use() -> None:
    with PortListener(0, SCHEMA) as first:
        with pytest.raises(InputError) as caught:
            PortListener(first.port, SCHEMA).start()
        assert caught.value.condition == "PORT_IN_USE"
        assert str(first.port) in str(caught.value)
        assert caught.value.hint


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(InputError) as caught:
        PortListener(0, SCHEMA, host="192.0.2.1").start()
    assert caught.value.condition == "PORT_NOT_AVAILABLE"


def test_an_error_inside_one_connection_ends_only_that_one(listener: PortListener) -> None:
    with connect(listener) as broken, connect(listener) as fine:
        until(lambda: listener.pending.connections == 2)
        ours = next(one for one in listener._connections if one.sock.getpeername() == broken.getsockname())

        def fail(data: bytes) -> list[object]:
            raise MemoryError

        ours.framer.feed = fail  # type: ignore[assignment, method-assign]
        broken.sendall(b"x,1\n")
        until(lambda: listener.pending.connections == 1)
        fine.sendall(b"a,1\n")
        assert sensors(arrive(listener, 1)) == ["a"]
