"""Which files a pattern names, in the order they are to be read.

A pattern is a local path or a URI of any filesystem Arrow knows (`s3://`, `gs://`, `hdfs://`, `file://`). `*`, `?` and
`[...]` stand for characters of one name, `**` for any depth. A folder stands for all files under it. Files a writer is
not done with, or that are not data, are left out: names that start with `_` or `.`, or end in `.tmp` or `.crc`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from headrace.errors import InputError

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class FileEntry:
    """A file: its path in its filesystem, its bytes, and when it last changed (0 where that is not known)."""

    path: str
    size: int
    mtime_ns: int


def list_files(glob: str) -> list[FileEntry]:
    """The files a pattern names, oldest first and by path among equals; none if nothing is there.

    Examples
    --------
    >>> list_files("/no/such/folder/*.csv")
    []
    """
    filesystem, pattern = open_filesystem(glob)
    found: dict[str, FileInfo] = {}
    try:
        exact = filesystem.get_file_info(pattern)
        if exact.type == FileType.File:  # also a file whose name has a bracket in it
            found[exact.path] = exact
        else:
            base, parts = _split(pattern)
            _check_folder(glob, filesystem.get_file_info(base), bool(parts))
            found = {info.path: info for info in _expand(filesystem, base, parts)}
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(glob, str(error)) from None
    entries = [FileEntry(path, info.size or 0, info.mtime_ns or 0) for path, info in found.items()]
    return sorted(entries, key=lambda entry: (entry.mtime_ns, entry.path))


def open_filesystem(glob: str) -> tuple[FileSystem, str]:
    """The filesystem of a pattern, and the pattern as that filesystem writes paths."""
    if "://" not in glob:
        return LocalFileSystem(), os.path.abspath(os.path.expanduser(glob))
    # A wildcard is not a URI character (`?` would start a query), so only the folder before it is parsed as one.
    wild = _WILD.search(glob)
    end = len(glob) if wild is None else glob.rindex("/", 0, wild.start()) + 1
    root = glob[:end].rstrip("/")
    root = glob[:end] if root.endswith(":") else root
    try:
        filesystem, base = FileSystem.from_uri(root)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            "BAD_FILE_PATTERN",
            f"{glob} is not a path or URI that can be opened.",
            detail=str(error),
            hint="Write a local path such as /data/in/*.csv or a URI such as s3://bucket/in/*.csv.",
        ) from None
    return filesystem, f"{base.rstrip('/')}/{glob[end:]}" if glob[end:] else base


def _split(pattern: str) -> tuple[str, list[str]]:
    """The folder before the first wildcard, and the names after it."""
    wild = _WILD.search(pattern)
    if wild is None:
        return pattern, []
    cut = pattern.rfind("/", 0, wild.start())
    return pattern[:cut] or "/", [part for part in pattern[cut + 1 :].split("/") if part]


def _check_folder(glob: str, base: FileInfo, has_parts: bool) -> None:
    if has_parts and base.type == FileType.File:
        raise _unreadable(glob, f"{base.path} is a file, not a folder.")


def _unreadable(glob: str, detail: str) -> InputError:
    return InputError(
        "FOLDER_NOT_READABLE",
        f"The folder of {glob} cannot be read.",
        detail=detail,
        hint="Check the path, and that this user may list the folder.",
    )


def _expand(filesystem: FileSystem, folder: str, parts: list[str]) -> Iterator[FileInfo]:
    """The files under a folder whose names match, one name per level: only folders that match are listed."""
    if not parts or parts == ["**"]:
        yield from _all_under(filesystem, folder)
        return
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from _expand(filesystem, folder, rest)
    for info in _listed(filesystem, folder):
        if head == "**":
            if info.type == FileType.Directory and not _hidden(info.base_name):
                yield from _expand(filesystem, info.path, parts)
        elif fnmatchcase(info.base_name, head) and (info.base_name == head or not _hidden(info.base_name)):
            if info.type == FileType.Directory:
                yield from _expand(filesystem, info.path, rest)
            elif not rest:
                yield info


def _all_under(filesystem: FileSystem, folder: str) -> Iterator[FileInfo]:
    for info in _listed(filesystem, folder):
        if _hidden(info.base_name):
            continue
        if info.type == FileType.Directory:
            yield from _all_under(filesystem, info.path)
        else:
            yield info


def _listed(filesystem: FileSystem, folder: str) -> list[FileInfo]:
    # A folder may go away between two listings; that is the same as being empty.
    infos = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    return [info for info in infos if info.type in (FileType.File, FileType.Directory)]


def _hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith((".tmp", ".crc"))
