"""All tests, in two processes beside each other: those that need Apache Spark, and those that do not.

Each has one session of its engine for its whole run. The tests on Spark take less time than the others, so the property
tests follow them. What they print is shown when the others are done. With arguments, which are handed on to pytest, the
tests they choose are run in the same two processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO

#: What pytest ends with when nothing was selected: of the tests that were asked for, all may be of the other kind.
NO_TESTS = 5
PROPERTIES = "tests/properties"


def main(arguments: list[str]) -> int:
    """Run both, and say whether all went well."""
    beside = [[*arguments, "--needing", "spark"]]
    rest = [*arguments, "--needing", "others"]
    if not arguments:
        beside.append([PROPERTIES, "--needing", "others"])
        rest.append(f"--ignore={PROPERTIES}")
    with tempfile.TemporaryFile("w+") as printed, ThreadPoolExecutor(1) as pool:
        going = pool.submit(lambda: [_run(one, printed) for one in beside])
        codes = [_run(rest, None), *going.result()]
        printed.seek(0)
        sys.stdout.write(f"\nBeside them:\n{printed.read()}")
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    if failed:
        return max(failed)
    return NO_TESTS if all(code == NO_TESTS for code in codes) else 0


def _run(arguments: list[str], output: IO[str] | None) -> int:
    errors = None if output is None else subprocess.STDOUT
    return subprocess.call([sys.executable, "-m", "pytest", *arguments], stdout=output, stderr=errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
