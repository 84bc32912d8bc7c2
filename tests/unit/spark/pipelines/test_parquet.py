"""Which small files become one, and where staged files go."""

from millstream.spark.tables.parquet_files import File, small_groups, targets


def files(folder: str, *sizes: int) -> list[File]:
    return [File(f"{folder}/{number}.parquet", size) for number, size in enumerate(sizes)]


def test_many_small_files_of_a_folder_become_one_and_large_ones_stay() -> None:
    found = [*files("a", 1, 1, 1, 500), *files("b", 1, 1)]
    groups = small_groups(found, at_least=3, below_bytes=100, group_bytes=1000)
    assert groups == [files("a", 1, 1, 1)]


def test_a_group_is_no_larger_than_it_may_be() -> None:
    [group] = small_groups(files("a", 60, 60, 60, 60), at_least=3, below_bytes=100, group_bytes=150)
    assert len(group) == 2


def test_staged_files_keep_their_folders() -> None:
    staged = [File("_archive/staged/7/date=1/x.parquet", 1), File("_archive/staged/7/y.parquet", 1)]
    assert targets(staged, "_archive/staged/7", 7) == [
        ("_archive/staged/7/date=1/x.parquet", "date=1/000000007-0000.parquet"),
        ("_archive/staged/7/y.parquet", "000000007-0001.parquet"),
    ]
