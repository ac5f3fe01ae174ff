"""Headrace from Python: feed rows, refresh, read views as DataFrames, and follow a view's changes.

    python examples/fleet.py [engine]

The engine is spark (the default), sail, or a Spark Connect address. The home is a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile

import headrace

DECLARATIONS = """
    CREATE TABLE depots (depot STRING PRIMARY KEY, city STRING);
    CREATE STREAM positions (bus INT, depot STRING, kilometres INT, at TIMESTAMP) KEY (bus) ORDER BY at;
    CREATE STREAMED VIEW due AS SELECT bus, kilometres FROM positions WHERE kilometres >= 10000;
    CREATE VIEW cities AS
        SELECT d.city, COUNT(*) AS buses, SUM(p.kilometres) AS kilometres
        FROM positions p JOIN depots d ON p.depot = d.depot GROUP BY d.city;
"""


def main(engine: str) -> None:
    with tempfile.TemporaryDirectory() as folder, headrace.connect(f"{folder}/home", engine=engine) as session:
        session.sql(DECLARATIONS)
        session.feed("depots", [("east", "Kiel"), ("west", "Kiel"), ("hill", "Ulm")], at=0)
        session.feed("positions", [(1, "east", 9_950, 10), (2, "west", 4_000, 11), (3, "hill", 10_200, 12)])
        session.refresh()
        session.table("cities").show()

        # Bus 1 passes the mark; bus 3 comes back from its service with the counter at zero.
        session.feed("positions", [(1, "east", 10_020, 20), (3, "hill", 0, 25)])
        done = session.refresh()
        print(f"{len(done.views)} views refreshed in {sum(view.seconds for view in done.views):.2f} s")  # noqa: T201
        session.table("due").show()
        session.changes("due").show()
        print(session.explain("due"))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "spark")
