"""Views computed as a whole while their states stand still, held against their queries: whenever that may happen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.runtime import refresh, strategy
from headrace.runtime.books import Book, Way
from tests.properties.differential_changes import DECLARED, check_view
from tests.properties.harness import fresh, hold
from tests.properties.test_differential import Case, cases, make_views

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Standing:
    """A case, and what each refresh of a view chooses to do, in turn."""

    case: Case
    ways: tuple[Way, ...]


@st.composite
def standing(draw: st.DrawFn) -> Standing:
    case = draw(cases(views=3, most=5))
    return Standing(case, tuple(draw(st.lists(st.sampled_from(list(Way)), min_size=3, max_size=6))))


def a_view_equals_its_query_wherever_its_states_stand(engine: Engine, drawn: Standing) -> None:
    ways, turns = drawn.ways, iter(range(1_000_000))

    def choose(self: Book, now: float, all_: float, whole: float) -> tuple[Way, Book]:
        assert min(now, all_, whole) >= 0
        way = ways[next(turns) % len(ways)]
        if self.stands is None:
            return (Way.STAND if way is Way.STAND else Way.FOLLOW), self
        return (way if way is not Way.FOLLOW else Way.CATCH_UP), replace(self, owed=self.owed + 1)

    with pytest.MonkeyPatch.context() as patch, fresh(engine) as home:
        patch.setattr(Book, "choose", choose)
        patch.setattr(refresh, "FEW_ROWS", dict.fromkeys(strategy.FEW_ROWS, 0))
        home.session.sql(f"{DECLARED}{drawn.case.home}")
        for change in drawn.case.before:
            change.take(home.session)
        views = make_views(home.session, drawn.case.queries, "", "AUTO")
        for batch in drawn.case.batches:
            for change in batch:
                change.take(home.session)
            home.session.refresh()
            for name, text in views.items():
                check_view(home.session, name, text)


def test_a_view_equals_its_query_wherever_its_states_stand(sail_engine: Engine) -> None:
    hold(a_view_equals_its_query_wherever_its_states_stand, sail_engine, standing(), 30)


def _choices(book: Book, *seconds: tuple[float, float, float]) -> Iterator[Way]:
    for now, all_, whole in seconds:
        way, book = book.choose(now, all_, whole)
        if way is Way.STAND:
            book = replace(book, stands=book.stands or {})
        elif way in (Way.CATCH_UP, Way.BUILD):
            book = replace(book, stands=None, owed=0.0)
        yield way


def test_states_catch_up_once_that_would_have_paid() -> None:
    bulk, small = (9.0, 9.0, 2.0), (0.5, 9.5, 2.0)
    ways = list(_choices(Book(built=50.0), small[:1] + small[:1] + (2.0,), bulk, *[small] * 8))
    # Each small change could have been followed in 1.5 s less: the seventh pays for the 9.5 s of catching up.
    assert ways == [Way.FOLLOW, Way.STAND, *[Way.STAND] * 6, Way.CATCH_UP, Way.STAND]


def test_states_are_made_anew_where_that_is_cheaper_than_catching_up() -> None:
    ways = list(_choices(Book(built=2.0), (9.0, 9.0, 2.0), *[(0.5, 9.5, 2.0)] * 2))
    assert ways == [Way.STAND, Way.STAND, Way.BUILD]


def test_bulk_changes_alone_never_make_states_catch_up() -> None:
    assert set(_choices(Book(built=5.0), *[(9.0, 9.0, 2.0)] * 100)) == {Way.STAND}
