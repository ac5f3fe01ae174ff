"""Headrace keeps SQL views fresh on Apache Spark: declare streams and views in SQL, feed rows, refresh."""

from headrace.errors import HeadraceError
from headrace.runtime.info import Info
from headrace.session import Session, connect

__all__ = ["HeadraceError", "Info", "Session", "connect"]
__version__ = "0.1.0"
