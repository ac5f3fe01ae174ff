"""The one exception of the binder."""

from __future__ import annotations


class NotBound(Exception):
    """The query has no operator tree; `what` is a plain sentence that names the construct and the reason."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
