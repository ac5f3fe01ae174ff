"""All tests, in two processes beside each other: those that need Apache Spark, and those that do not.

Each has one session of its engine for its whole run. What the first prints is shown when the second is done. Arguments
are handed on to pytest in both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

#: What pytest ends with when nothing was selected: of the tests that were asked for, all may be of the other kind.
NO_TESTS = 5


def main(arguments: list[str]) -> int:
    """Run both, and say whether all went well."""
    command = [sys.executable, "-m", "pytest", *arguments]
    with tempfile.TemporaryFile("w+") as printed:
        on_spark = subprocess.Popen([*command, "--needing", "spark"], stdout=printed, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.call([*command, "--needing", "others"]), on_spark.wait()]
        except BaseException:
            on_spark.kill()
            raise
        printed.seek(0)
        sys.stdout.write(f"\nOn Apache Spark:\n{printed.read()}")
    if all(code == NO_TESTS for code in codes):
        return NO_TESTS
    return max((code for code in codes if code != NO_TESTS), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
