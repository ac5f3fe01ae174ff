"""Writes docs/support.md from the declarations in headrace.planner.support: python tools/support.py"""

from __future__ import annotations

from pathlib import Path

from headrace.planner.support import document

PAGE = Path(__file__).parents[1] / "docs" / "support.md"

if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
