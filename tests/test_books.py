"""What a view's refreshes teach about the next ones."""

from __future__ import annotations

from headrace.planner.cost import Costs, estimate
from headrace.runtime.books import Book


def costs(changed: int, book: Book) -> float:
    return _estimated(changed, book).changes


def _estimated(changed: int, book: Book) -> Costs:
    return estimate(
        "sail", levels=3, jobs=1, changed=changed, total=10_000_000, operators=3, measured=2.0, here=True,
        pace=book.pace, extra=book.extra,
    )  # fmt: skip


def test_slow_small_refreshes_do_not_make_large_ones_dear() -> None:
    """A tenth of a second more whatever the rows is a tenth of a second more, not ten times as much."""
    book = Book()
    for _ in range(12):
        book = book.with_followed(0.3, _estimated(1_000, book))
    assert 0.28 < costs(1_000, book) < 0.31
    assert costs(700_000, book) < costs(700_000, Book()) + 0.3


def test_slow_large_refreshes_make_large_ones_dear() -> None:
    book = Book()
    for _ in range(12):
        book = book.with_followed(6.0, _estimated(700_000, book))
    assert 5.5 < costs(700_000, book) < 6.5
    assert costs(1_000, book) < 0.2


def test_both_together() -> None:
    book = Book()
    for _ in range(16):
        book = book.with_followed(0.3, _estimated(1_000, book))
        book = book.with_followed(6.0, _estimated(700_000, book))
    assert 0.25 < costs(1_000, book) < 0.35
    assert 5.5 < costs(700_000, book) < 6.5


def test_a_slow_refresh_is_not_taken_for_the_rule() -> None:
    """The first one reads files that nobody has read yet; quick ones count for more, so that views stay followed."""
    slow = Book().with_followed(2.0, _estimated(700_000, Book()))
    assert costs(700_000, slow) < 1.4
    quick = slow.with_followed(0.5, _estimated(700_000, slow))
    assert costs(700_000, quick) < (costs(700_000, slow) + 0.5) / 2 + 0.05


def test_a_very_slow_refresh_makes_the_next_twice_as_dear_at_most() -> None:
    """States of gigabytes that are read for the first time took sixty times as long as they do ever after."""
    cold = Book().with_followed(60.0, _estimated(76_000, Book()))
    assert costs(700_000, cold) < 2 * costs(700_000, Book())
    small = Book().with_followed(60.0, _estimated(1_000, Book()))
    assert costs(1_000, small) < 3.1 * costs(1_000, Book())
