"""Locations: where a table is, in Spark's form and as a file system of pyarrow's."""

from pathlib import Path

from pyarrow import fs

from millstream.spark.options import OptionError


def located(location: str) -> str:
    """Return a location that means the same in every process."""
    return location if "://" in location else str(Path(location).absolute())


def uri(location: str) -> str:
    """Return a location as Python packages write it: Spark alone says s3a."""
    return located(location).replace("s3a://", "s3://", 1).rstrip("/")


def opened(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a location, and its path there."""
    try:
        files, path = fs.FileSystem.from_uri(uri(location))
    except (OSError, ValueError) as error:
        raise OptionError("table", f"{location!r} cannot be opened: {error}") from None
    return files, path.rstrip("/")


def is_there(files: fs.FileSystem, path: str) -> bool:
    """Return whether a file or a folder exists."""
    [info] = files.get_file_info([path])
    return bool(info.type is not fs.FileType.NotFound)
