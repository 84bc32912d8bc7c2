"""Deleting many streams with both shells (rule X11)."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from millstream import BadRequestError


def server_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path


def test_streams_of_a_prefix_are_deleted(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    for number in range(5):
        shell.DurableStream.create(f"{url}/{number}")
    kept = shell.DurableStream.create(f"{url}-kept")
    progress: list[int] = []
    assert shell.delete_all(server, f"{path}/", on_progress=progress.append) == 5
    assert progress[-1] == 5
    assert kept.head().exists
    assert shell.delete_all(server, f"{path}/") == 0


def test_a_glob_chooses_among_them(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    for name in ("a/1", "a/2", "b/1"):
        shell.DurableStream.create(f"{url}/{name}")
    assert shell.delete_all(server, f"{path}/", glob=f"{path}/*/1") == 2
    assert shell.delete_all(server, glob=f"{path}/a/*") == 1


@pytest.mark.parametrize("given", [{}, {"prefix": ""}, {"prefix": "", "glob": "**"}, {"prefix": "chat"}])
def test_what_to_delete_must_be_said(shell: Any, url: str, given: dict[str, str]) -> None:
    kept = shell.DurableStream.create(url)
    with pytest.raises(BadRequestError) as refused:
        shell.delete_all(server_and_path(url)[0], **given)
    assert refused.value.code in ("MISSING_PREFIX", "INVALID_PREFIX")
    assert kept.head().exists


def test_more_than_a_page_is_deleted(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    for number in range(1100):
        shell.DurableStream.create(f"{url}/{number}")
    progress: list[int] = []
    assert shell.delete_all(server, f"{path}/", on_progress=progress.append) == 1100
    assert len(progress) > 1
    assert progress == sorted(progress)
