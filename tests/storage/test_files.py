"""The files of a home: where they go, what is listed, what is deleted, and a home that cannot be one."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import StorageError
from headrace.storage.files import Files
from tests.storage.conftest import log_rows


def test_a_file_is_read_back_as_written(files: Files) -> None:
    folder = files.new_folder("Rooms", 3, 7)
    written = files.write(folder, log_rows(1, 2, 3))
    assert written.path.startswith("rooms/part=3/v7/")
    assert written.rows == 3
    assert written.bytes == os.path.getsize(files.spark_path(written.path))
    assert files.read([written.path]).equals(log_rows(1, 2, 3))
    assert files.read([written.path], ["__t"]).column_names == ["__t"]
    assert files.range_of(written.path, "__t") == (1, 3)
    assert files.all() == [written.path]


def test_a_file_written_in_pieces(files: Files) -> None:
    opened = files.open(files.new_folder("a", 0, 1), log_rows().schema)
    opened.write(log_rows(1, 2))
    opened.write(log_rows(9))
    written = opened.close(3)
    assert files.read([written.path]).column("__t").to_pylist() == [1, 2, 9]
    assert written.bytes == os.path.getsize(files.spark_path(written.path))


def test_the_range_of_no_rows_and_of_nulls(files: Files) -> None:
    empty = files.write("a/part=0/v1", log_rows())
    nulls = files.write("a/part=0/v1", pa.table({"__t": pa.nulls(2, pa.int64())}))
    assert files.range_of(empty.path, "__t") == (None, None)
    assert files.range_of(nulls.path, "__t") == (None, None)


def test_files_an_engine_wrote_are_found_without_its_notes(files: Files) -> None:
    folder = f"{files.home}/a/part=0/v1/x"
    os.makedirs(f"{folder}/deeper")
    pq.write_table(log_rows(1, 2), f"{folder}/part-0.parquet")
    pq.write_table(log_rows(3), f"{folder}/deeper/part-1.parquet")
    Path(f"{folder}/_SUCCESS").touch()
    Path(f"{folder}/.part-0.parquet.crc").touch()
    found = files.found("a/part=0/v1/x")
    assert [(item.path.rsplit("/", 1)[1], item.rows) for item in found] == [
        ("part-1.parquet", 1),
        ("part-0.parquet", 2),
    ]
    assert files.found("a/part=9/v9") == []


def test_deleting_leaves_no_empty_folders(files: Files) -> None:
    one = files.write("a/part=0/v1", log_rows(1))
    two = files.write("a/part=0/v2", log_rows(2))
    Path(f"{files.home}/a/part=0/v1/_SUCCESS").touch()
    files.delete([one.path])
    assert sorted(os.listdir(f"{files.home}/a/part=0")) == ["v2"]
    files.delete([two.path, two.path, "a/part=0/v3/never.parquet"])
    assert os.listdir(files.home) == []


@pytest.mark.parametrize("name", ["a b", "naïve", "x/y", "../up", "A`b", "%41", "💧"])
def test_any_name_is_a_folder_of_its_own(files: Files, name: str) -> None:
    folder = files.new_folder(name, 0, 1)
    assert folder.count("/") == 2
    assert folder != files.new_folder("other", 0, 1)
    written = files.write(folder, log_rows(1))
    assert files.all() == [written.path]
    assert files.read(files.all()).num_rows == 1
    assert len(os.listdir(files.home)) == 1


def test_names_differing_only_in_special_characters_stay_apart(files: Files) -> None:
    names = ["a b", "a_b", "a%20b", "a.b", "ab"]
    assert len({files.new_folder(name, 0, 1) for name in names}) == len(names)


def test_only_data_files_are_listed_wherever_the_home_lies(tmp_path: Path) -> None:
    """A folder above the home may look like a part; the catalog beside the data must never count as data."""
    files = Files(str(tmp_path / "part=1" / "home"))
    Path(files.home, "catalog.db").touch()
    written = files.write("a/part=0/v1", log_rows(1))
    assert files.all() == [written.path]


def test_a_home_below_a_file_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(StorageError) as error:
        Files(str(blocked / "home"))
    assert error.value.condition == "HOME_UNUSABLE"
    assert str(blocked) in error.value.message


@pytest.mark.parametrize("home", ["nosuchscheme://x/y", "s3://"])
def test_a_home_on_no_known_file_system_cannot_be_used(home: str) -> None:
    with pytest.raises(StorageError) as error:
        Files(home)
    assert error.value.condition == "HOME_UNUSABLE"


def test_a_home_by_uri(tmp_path: Path) -> None:
    files = Files(f"file://{tmp_path}/home/")
    written = files.write("a/part=0/v1", log_rows(1))
    assert files.local
    assert files.spark_path(written.path) == f"file://{tmp_path}/home/{written.path}"
    assert (tmp_path / "home" / written.path).exists()
    assert files.all() == [written.path]
