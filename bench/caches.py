"""Where generated data is kept between runs: outside the checkout, and complete or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

#: Names the folder, where the default does not suit.
VARIABLE = "HEADRACE_BENCH_CACHE"


def folder(given: str | Path | None = None) -> Path:
    """The folder for generated data: the one given, else the variable's, else one in the user's cache."""
    chosen = given or os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "bench"


def kept(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, made by `make` in another place and then renamed, so that a run that was stopped leaves nothing half."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        make(scratch)
        scratch.chmod(0o755)
        if not path.exists():  # another run may have been quicker
            scratch.rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path
