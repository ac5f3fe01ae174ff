"""Options of each kind of object: which there are, what they must be, and errors that say so."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import DefinitionError
from headrace.language.times import parse_duration

LATE_POLICIES = ("divert", "drop", "merge")
#: How a view may be kept, in the words of EXPLAIN.
STRATEGIES = {
    "auto": "what the planner finds cheapest",
    "recompute": "the whole query again at each refresh",
    "incremental": "by the changes, and an error where that cannot be done",
    "differential": "by the changes, each operator by its differential",
    "distributive": "of a window over parts: by merging what each part comes to",
    "subtractable": "of a window over parts: by what all parts so far come to, less what they came to before it",
}
TUPLES = {
    "auto": "as the update patterns of its operators allow",
    "negative": "every row that leaves is sent on as a negative tuple",
    "direct": "each operator finds by itself which of its rows have expired",
}
REWRITINGS = {
    "auto": "what the planner finds cheapest",
    "pull up": "operators whose deletions are hard to foresee are moved up",
    "push down": "they are moved down, so that less goes through them",
}
SHARINGS = {
    "auto": "from another view that contains it, where that is less work",
    "always": "from another view wherever one contains it",
    "never": "from what its query names",
}
POLICIES = {
    "auto": "by the changes where that is cheaper, else the whole query again",
    "incremental": "by the changes wherever that can be done",
    "incremental strict": "by the changes, and an error where that cannot be done",
    "full": "the whole query again at each refresh",
}


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _bad(name, value, "a whole number of 1 or more")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _bad(name, value, "a text such as 'x'")
    return value


def _character(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in '"\r\n\0':
        raise _bad(name, value, "one ASCII character such as ';'")
    return value


def _nullable_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _bad(name, value, "a text such as 'NA'")
    return value


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _bad(name, value, "true or false")
    return value


def _duration(name: str, value: Any) -> int:
    try:
        micros = parse_duration(value)
    except Exception as error:
        raise _bad(name, value, "a duration such as 10 (seconds) or '5 minutes'") from error
    if micros < 0:
        raise _bad(name, value, "a duration of 0 or more")
    return micros


def _one_of(*known: str) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if str(value).lower() not in known:
            raise _bad(name, value, f"one of {', '.join(known)}")
        return str(value).lower()

    return check


def _choice(known: Mapping[str, str]) -> Callable[[str, Any], str]:
    """One of a few words; the error tells what each of them means."""

    def check(name: str, value: Any) -> str:
        word = " ".join(str(value).lower().replace("_", " ").split())
        if word not in known:
            close = difflib.get_close_matches(word, known, n=1)
            meanings = "; ".join(f"{choice}: {meaning}" for choice, meaning in known.items())
            hint = f"Did you mean '{close[0]}'? " if close else ""
            raise _bad(name, value, f"one of {', '.join(known)}", f"{hint}{meanings}.")
        return word

    return check


def _sharing(name: str, value: Any) -> str:
    """How a view is read from others: true and false will do for the plain cases."""
    word = {True: "auto", False: "never", "true": "auto", "false": "never"}.get(value, value)
    return _choice(SHARINGS)(name, word)


_LINES = {"delimiter": _character, "header": _truth, "null_value": _nullable_text}

#: Options by kind of object, with the check that also brings each into its stored form.
OPTIONS: Mapping[str, Mapping[str, Callable[[str, Any], Any]]] = {
    "source": {"max_rows_per_batch": _count, **_LINES},
    "stream": {
        "slack": _duration,
        "late": _one_of(*LATE_POLICIES),
        "op": _text,
        "retain": _duration,
        "max_rows_per_batch": _count,
        "check_keys": _truth,
    },
    "table": {"retain": _duration, "check_keys": _truth},
    "view": {
        "retain": _duration,
        "strategy": _choice(STRATEGIES),
        "tuples": _choice(TUPLES),
        "rewriting": _choice(REWRITINGS),
        "buckets": _count,
        "policy": _choice(POLICIES),
        "sharing": _sharing,
    },
}


def checked(kind: str, given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The options of an object called `name`, checked and in their stored form."""
    known = OPTIONS[kind]
    found = {}
    for option, value in given.items():
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            raise DefinitionError(
                "UNKNOWN_OPTION",
                f"A {kind} has no option {option} ({name}).",
                hint=f"Did you mean {close[0]}?" if close else f"It has: {', '.join(sorted(known))}.",
            )
        found[option] = known[option](option, value)
    return found


def _bad(name: str, value: Any, wanted: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError("BAD_OPTION", f"{name} = {value!r} is not {wanted}.", hint=hint)
