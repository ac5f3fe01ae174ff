"""A writer for others to read beside: `python -m tests.crash.writer FOLDER [CATALOG URL]`.

It drops one file after the other and lands each with a refresh, so that base and views change together in every
snapshot, and says how many it has landed. It never ends by itself.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from headrace.session import connect

DECLARED = """
ALTER HOME SET (rollup_parts = 3);
ALTER HOME SET (keep_seconds = 3600);
REGISTER SOURCE orders_in (id INT, amount INT, at INT) FROM FILES '{incoming}/*.csv' FORMAT csv;
CREATE STREAM orders OVER orders_in KEY NULL ORDER BY at;
CREATE VIEW sums AS SELECT count(*) AS n, sum(amount) AS amount FROM orders;
CREATE STREAMED VIEW counts AS SELECT id % 3 AS part, count(*) AS n FROM orders GROUP BY id % 3;
CREATE VIEW counted AS SELECT sum(n) AS n FROM counts;
"""


def main(folder: Path, catalog: str | None) -> None:
    incoming = folder / "incoming"
    incoming.mkdir()
    session = connect(str(folder / "home"), engine="sail", catalog=catalog)
    session.sql(DECLARED.format(incoming=incoming))
    for number in itertools.count(1):
        (incoming / "_next").write_text("".join(f"{number},{amount},{number}\n" for amount in range(number % 5 + 1)))
        os.rename(incoming / "_next", incoming / f"{number:06d}.csv")
        session.refresh()
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
