"""Which files a pattern names, and in which order."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from headrace.errors import InputError
from headrace.sources import globs
from headrace.sources.globs import list_files, open_filesystem


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    names = [
        "a.csv", "b.csv", "b.json", "_c.csv", ".d.csv", "e.csv.tmp", ".a.csv.crc", "x/f.csv", "x/y/g.csv", "x/_s/h.csv",
        "t.csv/part-0", "t.csv/_SUCCESS", "_hidden/i.csv", "odd[1].csv",
    ]  # fmt: skip
    for number, name in enumerate(names):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, ns=(number * 1000, number * 1000))
    return tmp_path / "in"


def names(tree: Path, pattern: str) -> list[str]:
    return [os.path.relpath(entry.path, tree) for entry in list_files(f"{tree}/{pattern}")]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.json", ["b.json"]),
        ("?.csv", ["a.csv", "b.csv", "t.csv/part-0"]),
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("[!a].csv", ["b.csv", "t.csv/part-0"]),
        ("x/*.csv", ["x/f.csv"]),
        ("x", ["x/f.csv", "x/y/g.csv"]),
        ("x/**", ["x/f.csv", "x/y/g.csv"]),
        ("**/g.csv", ["x/y/g.csv"]),
        ("**/[fg].csv", ["x/f.csv", "x/y/g.csv"]),
        ("*/f.csv", ["x/f.csv"]),
        ("a.csv", ["a.csv"]),
        ("_c.csv", ["_c.csv"]),
        ("odd[1].csv", ["odd[1].csv"]),
        ("nothing*", []),
        ("no/such/folder/*.csv", []),
        ("no/such/file.csv", []),
    ],
)
def test_patterns(tree: Path, pattern: str, expected: list[str]) -> None:
    assert names(tree, pattern) == expected


def test_a_folder_is_all_files_under_it(tree: Path) -> None:
    assert names(tree, "") == ["a.csv", "b.csv", "b.json", "x/f.csv", "x/y/g.csv", "t.csv/part-0", "odd[1].csv"]


def test_oldest_first_then_by_path(tree: Path) -> None:
    os.utime(tree / "a.csv", ns=(10**18, 10**18))
    os.utime(tree / "b.csv", ns=(10**18, 10**18))
    os.utime(tree / "b.json", ns=(10**9, 10**9))
    assert names(tree, "?.*") == ["t.csv/part-0", "b.json", "a.csv", "b.csv"]
    newest = list_files(f"{tree}/a.csv")[0]
    assert (newest.size, newest.mtime_ns) == (5, 10**18)


def test_uris_and_relative_paths(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [entry.path for entry in list_files(f"file://{tree}/[ab].csv")] == [f"{tree}/a.csv", f"{tree}/b.csv"]
    assert [entry.path for entry in list_files(f"file://{tree}/a.csv")] == [f"{tree}/a.csv"]
    monkeypatch.chdir(tree)
    assert [entry.path for entry in list_files("x/*.csv")] == [f"{tree}/x/f.csv"]
    filesystem, path = open_filesystem("x/f.csv")
    with filesystem.open_input_stream(path) as stream:
        assert stream.read() == b"x/f.csv"


def test_a_uri_of_an_unknown_kind() -> None:
    with pytest.raises(InputError) as caught:
        list_files("nosuch://bucket/*.csv")
    assert caught.value.condition == "BAD_FILE_PATTERN"


def test_a_file_where_a_folder_should_be(tree: Path) -> None:
    with pytest.raises(InputError) as caught:
        list_files(f"{tree}/a.csv/*.csv")
    assert caught.value.condition == "FOLDER_NOT_READABLE"


def test_a_folder_that_may_not_be_listed(tree: Path) -> None:
    # Tests may run as root, whom no mode stops.
    with (
        mock.patch.object(globs, "_listed", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(InputError) as caught,
    ):
        list_files(f"{tree}/*.csv")
    assert caught.value.condition == "FOLDER_NOT_READABLE"
    assert "Permission denied" in str(caught.value)
