"""What every command needs to know: which home, which engine, which catalog, and how much to tell of a failure.

Each setting may stand before the command, after it, or in the environment. The nearest one wins: an option after the
command, then one before it, then the variable, then the default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.errors import StorageError

if TYPE_CHECKING:
    from headrace.session import Session

DEFAULT_HOME = "./headrace-home"
DEFAULT_ENGINE = "spark"


@dataclass(frozen=True)
class Settings:
    """The global options as given; None where nothing was said."""

    home: str | None = None
    engine: str | None = None
    catalog: str | None = None
    debug: bool = False

    def overridden(
        self, home: str | None = None, engine: str | None = None, catalog: str | None = None, debug: bool = False
    ) -> Settings:
        """These settings, with what was given after the command in place of what was given before it."""
        return replace(
            self,
            home=home if home is not None else self.home,
            engine=engine if engine is not None else self.engine,
            catalog=catalog if catalog is not None else self.catalog,
            debug=debug or self.debug,
        )

    @property
    def home_path(self) -> str:
        return self.home or DEFAULT_HOME

    @property
    def engine_name(self) -> str:
        return self.engine or DEFAULT_ENGINE

    def open(self) -> Session:
        """A session on the home, which is made if it is new."""
        from headrace.session import connect

        return connect(self.home_path, engine=self.engine_name, catalog=self.catalog)

    def open_existing(self) -> Session:
        """A session on a home that must be there: looking at a mistyped path must not make a home of it."""
        path = os.path.expanduser(self.home_path)
        if self.catalog is None and "://" not in path and not os.path.exists(os.path.join(path, "catalog.db")):
            raise StorageError(
                "NO_HOME",
                f"There is no home at {self.home_path}.",
                hint=f"headrace sql --home {self.home_path} makes one; or set HEADRACE_HOME to the one you mean.",
            )
        return self.open()
