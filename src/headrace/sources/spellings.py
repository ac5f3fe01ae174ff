"""What a value may look like in text, as patterns and limits.

Both paths build on these: `values` reads one value with Python's `re`, `column_values` a whole column with Arrow's RE2.
"""

from __future__ import annotations

from datetime import date

BLANKS = " \t"
BOM = "\ufeff".encode()
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NONFINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
SECONDS = r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,6})?"
DATE = r"([0-9]{4})[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?"
_ZONE = r" ?(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)"
TIMESTAMP = rf"{DATE}(?:[ T]{_CLOCK}(?:{_ZONE})?)?"
TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY = 1 - EPOCH
FIRST_MICRO = -62_135_596_800_000_000  # 0001-01-01, Spark's and Python's first day
LAST_MICRO = 253_402_300_799_999_999  # the end of 9999-12-31
