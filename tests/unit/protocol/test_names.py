"""Stream names: rules P1 to P3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError, OutsideMountError
from millstream.protocol.names import (
    MAX_NAME_BYTES,
    below_mount,
    check_length,
    control_path,
    is_reserved,
    parse_name,
)

ROOTS = ("/", "/v1/stream/")


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"/a", "/a"),
        (b"/chat/abc", "/chat/abc"),
        (b"/v1/stream/x", "/v1/stream/x"),
        (b"/%61", "/a"),
        (b"/a%2Fb", "/a/b"),
        (b"/a%2fb", "/a/b"),
        (b"/a+b", "/a+b"),
        (b"/a%20b", "/a b"),
        (b"/%C3%A4", "/ä"),
        ("/ä".encode(), "/ä"),
        (b"/a%25", "/a%"),
        (b"/%2561", "/%61"),  # decoded once
        (b"//a//b/", "//a//b/"),
        (b"/...", "/..."),
        (b"/.hidden", "/.hidden"),
        (b"/a..b", "/a..b"),
        (b"/%F0%9F%98%80", "/😀"),
        (b"/" + b"x" * (MAX_NAME_BYTES - 1), "/" + "x" * (MAX_NAME_BYTES - 1)),
        (b"/" + b"%78" * (MAX_NAME_BYTES - 1), "/" + "x" * (MAX_NAME_BYTES - 1)),
    ],
)
def test_a_name_is_the_decoded_path(raw: bytes, name: str) -> None:
    """P1, P3."""
    assert parse_name(raw) == name


@pytest.mark.parametrize(
    ("one", "other"),
    [(b"/a", b"/A"), (b"/%C3%A4", b"/a%CC%88"), (b"/a", b"/a/"), (b"/a", b"//a"), (b"/a", b"/a%20")],
    ids=["case", "normal form", "slash at the end", "slashes", "space"],
)
def test_names_that_differ_at_all_are_two_streams(one: bytes, other: bytes) -> None:
    """P3."""
    assert parse_name(one) != parse_name(other)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"a",
        b"*",
        b"http://host/a",
        b"/a%",
        b"/a%2",
        b"/a%zz",
        b"/a%+1",
        b"/a% 1",
        b"/%ff",
        b"/\xff",
        b"/%C3",
        b"/%ED%A0%80",  # a surrogate
        b"/%C0%AF",  # an overlong slash
        b"/a%00",
        b"/a\x00",
        b"/a%0d%0ab",
        b"/a%09",
        b"/a%1b[31m",
        b"/a%7f",
        b"/a%C2%85",  # a control character of the C1 set
        b"/.",
        b"/..",
        b"/a/../b",
        b"/a/./b",
        b"/a/%2e%2e",
        b"/%2E%2E%2Fetc",
        b"/a/..",
        b"/" + b"x" * MAX_NAME_BYTES,
        b"/" + "ä".encode() * (MAX_NAME_BYTES // 2),
        b"/" + b"x" * 4096,
    ],
)
def test_what_is_no_name_is_refused(raw: bytes) -> None:
    """P3."""
    with pytest.raises(MalformedError) as refused:
        parse_name(raw)
    assert refused.value.code in ("INVALID_NAME", "NAME_TOO_LONG")


@pytest.mark.parametrize(
    ("raw", "rest"),
    [
        (b"/__ds", ""),
        (b"/__ds/", ""),
        (b"/__ds/streams", "streams"),
        (b"/%5f%5fds/streams", "streams"),
        (b"/%5F_ds/streams", "streams"),
        (b"//__ds/streams", "streams"),
        (b"/%2f__ds/streams", "streams"),
        (b"///__ds//streams", "/streams"),
        (b"/v1/stream/__ds/streams", "streams"),
        (b"/v1/stream//%5f%5fds/streams", "streams"),
        (b"/v1%2fstream/__ds/streams", "streams"),
    ],
)
def test_the_reserved_segment_is_never_a_stream_whatever_its_spelling(raw: bytes, rest: str) -> None:
    """P2."""
    name = parse_name(raw)
    assert is_reserved(name, ROOTS)
    assert rest in {control_path(name, root) for root in ROOTS}


@pytest.mark.parametrize(
    "raw", [b"/__DS/a", b"/__ds2", b"/a/__ds", b"/v1/__ds", b"/v1/stream2/__ds", b"/_ds", b"/__dss/__ds"]
)
def test_the_reserved_segment_elsewhere_is_a_name(raw: bytes) -> None:
    """P2."""
    assert not is_reserved(parse_name(raw), ROOTS)


@given(st.binary(max_size=30).map(lambda path: b"/" + path))
def test_every_accepted_name_is_safe_to_print_and_to_join(raw: bytes) -> None:
    """P3."""
    try:
        name = parse_name(raw)
    except MalformedError:
        return
    assert name.startswith("/")
    assert not {"\x00", "\r", "\n", "\x1b"} & set(name)
    assert not {".", ".."} & set(name.split("/"))


@pytest.mark.parametrize(
    ("name", "mount", "below"),
    [("/a", "", "/a"), ("/m/a", "/m", "/a"), ("/m//a", "/m", "//a"), ("/m/", "/m", "/")],
)
def test_the_mount_is_no_part_of_a_name(name: str, mount: str, below: str) -> None:
    """P1."""
    assert below_mount(name, mount) == below


@pytest.mark.parametrize("name", ["/a", "/m", "/mm/a", "/a/m/a"])
def test_there_are_no_streams_outside_of_the_mount(name: str) -> None:
    """P1."""
    with pytest.raises(OutsideMountError):
        below_mount(name, "/m")


def test_a_name_is_measured_in_bytes() -> None:
    """P3."""
    check_length("/\u00e9", 3)
    for name in ("/\u00e9", "/abc"):
        with pytest.raises(MalformedError):
            check_length(name, 2)
