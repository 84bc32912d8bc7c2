"""Settings: where they come from, and what they may be."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from millstream.server.settings import Settings, SettingsError, fields, load


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "millstream.toml"


def test_defaults_are_those_of_the_protocol() -> None:
    """P4, L1, G1."""
    settings = load({}, {})
    assert settings == Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 4437)
    assert (settings.long_poll_timeout_ms, settings.sse_ttl_s) == (30_000, 60.0)
    assert settings.max_chunk_bytes == 8 * 2**20
    assert settings.cors_origin == ("*",)


@pytest.mark.parametrize(
    ("option", "variable", "file", "port"),
    [
        (1, "2", "3", 1),
        (None, "2", "3", 2),
        (None, None, "3", 3),
        (None, None, None, 4437),
        (1, None, "3", 1),
        (0, "2", "3", 0),
    ],
)
def test_the_option_wins_over_the_variable_and_that_over_the_file(
    config: Path, option: int | None, variable: str | None, file: str | None, port: int
) -> None:
    config.write_text(f"port = {file}\n" if file else "")
    variables = {"MILLSTREAM_PORT": variable} if variable else {}
    assert load({"port": option}, variables, config).port == port


BESIDE: dict[str, dict[str, Any]] = {
    "tls_cert": {"tls_key": "k"},
    "tls_key": {"tls_cert": "c"},
    "public_streams": {"skip_auth": True},
    "skip_auth": {"public_streams": True},
    "replica": {"store": "postgres://host/name"},
    "auth_secret_old": {"auth_secret": "/the/new/one"},
}


def test_each_setting_can_be_given_in_each_way(config: Path) -> None:
    """A value that is not the default, as text and as a TOML value."""
    for name, kind, default, rule in fields():
        value: Any
        if kind is bool:
            value = not default
        elif kind in (int, float):
            value = kind(default + 1 if rule.maximum is None or default < rule.maximum else default - 1)
        elif kind is str:
            choices = [choice for choice in (*rule.choices, *rule.prefixes) if choice != default]
            value = next(iter(choices), "/some/thing")
        else:
            value = ("https://a.example", "https://b.example")
        beside = BESIDE.get(name, {})
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        as_toml = json.dumps(value)
        config.write_text(f"{name} = {as_toml}\n")
        ways = [
            load({name: value} | beside, {}),
            load(beside, {f"MILLSTREAM_{name.upper()}": text}),
            load(beside, {}, config),
        ]
        assert [getattr(settings, name) for settings in ways] == [value] * 3, name


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes"])
def test_a_switch_is_turned_on_by_a_word(word: str) -> None:
    assert load({}, {"MILLSTREAM_TRUST_FORWARDED": word}).trust_forwarded is True
    assert load({}, {"MILLSTREAM_COMPRESS": {"1": "0", "yes": "no"}.get(word, "false")}).compress is False


def test_several_origins_are_given_by_commas_or_as_a_list(config: Path) -> None:
    config.write_text('cors_origin = ["https://a.example", "https://b.example"]\n')
    wanted = ("https://a.example", "https://b.example")
    assert load({}, {}, config).cors_origin == wanted
    assert load({}, {"MILLSTREAM_CORS_ORIGIN": "https://a.example, https://b.example"}).cors_origin == wanted
    assert load({"cors_origin": []}, {}, config).cors_origin in (wanted, ())


WRONG_VALUES = [
    ("port", "x", "whole number"),
    ("port", "", "whole number"),
    ("port", "80.5", "whole number"),
    ("port", "-1", "below"),
    ("port", "65536", "above"),
    ("long_poll_timeout_ms", "0", "below"),
    ("long_poll_timeout_ms", "99999999", "above"),
    ("sse_ttl_s", "soon", "number"),
    ("sse_ttl_s", "0", "below"),
    ("sse_ttl_s", "nan", "number"),
    ("idle_timeout_s", "-inf", "number"),
    ("max_body_bytes", "1e6", "whole number"),
    ("store", "oracle", "not one of"),
    ("durability", "maybe", "not one of"),
    ("compress", "perhaps", "true or false"),
    ("path", "v1/stream", "slash"),
    ("path", "/v1/", "slash"),
    ("tls_cert", "cert.pem", "tls_key"),
    ("tls_key", "key.pem", "tls_cert"),
]


@pytest.mark.parametrize(("name", "text", "reason"), WRONG_VALUES)
def test_a_wrong_value_is_named_with_its_place_and_reason(name: str, text: str, reason: str) -> None:
    variable = f"MILLSTREAM_{name.upper()}"
    with pytest.raises(SettingsError) as refused:
        load({}, {variable: text})
    message = str(refused.value)
    assert reason in message
    assert name in message.lower()
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("port = 80.5", "whole number"),
        ("port = true", "whole number"),
        ("port = [80]", "whole number"),
        ('port = "x"', "whole number"),
        ("sse_ttl_s = false", "number"),
        ("sse_ttl_s = nan", "number"),
        ("host = 5", "a string"),
        ("host = true", "a string"),
        ("compress = 1", "true or false"),
        ('compress = "perhaps"', "true or false"),
        ("cors_origin = 5", "list of strings"),
        ("cors_origin = [5]", "list of strings"),
        ("port = 2030-01-01", "whole number"),
        ("prot = 80", "unknown settings: prot"),
        ("[server]\nport = 80", "unknown settings: server"),
        ("port = ", "not valid TOML"),
        ("port = 1\nport = 2", "not valid TOML"),
    ],
)
def test_a_wrong_line_of_the_file_is_named_with_its_reason(config: Path, line: str, reason: str) -> None:
    config.write_text(line + "\n")
    with pytest.raises(SettingsError) as refused:
        load({}, {}, config)
    message = str(refused.value)
    assert reason in message
    assert str(config) in message
    assert "\n" not in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for config in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(SettingsError, match="cannot be read") as refused:
            load({}, {}, config)
        assert str(config) in str(refused.value)


def test_a_file_that_is_not_text_is_named(config: Path) -> None:
    config.write_bytes(b"port = 1 # \xff\n")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load({}, {}, config)


def test_unknown_variables_are_ignored() -> None:
    """Other programs have variables too, and so may other versions of this one."""
    assert load({}, {"MILLSTREAM_COLOUR": "green", "PORT": "1"}) == Settings()


def test_every_setting_says_what_it_is_for() -> None:
    for field in dataclasses.fields(Settings):
        assert field.metadata["rule"].help.endswith("."), field.name


@pytest.mark.parametrize("text", ["", " ", " " * 40, "\t \u00a0"])
@pytest.mark.parametrize("name", ["auth_secret", "auth_secret_old", "anycable_secret"])
def test_a_secret_that_is_given_is_not_blank(config: Path, name: str, text: str) -> None:
    """Whoever gave it meant to protect something; an open server would be a surprise."""
    config.write_text(f"{name} = {json.dumps(text)}\n")
    for options, variables, file in (
        ({name: text}, {}, None),
        ({}, {f"MILLSTREAM_{name.upper()}": text}, None),
        ({}, {}, config),
    ):
        with pytest.raises(SettingsError, match="must not be empty"):
            load(options, variables, file)
    if text:
        with pytest.raises(SettingsError, match="must not be blank"):
            Settings(**{"auth_secret": "x" * 32, name: text})


def test_a_former_secret_needs_a_new_one() -> None:
    with pytest.raises(SettingsError, match="auth_secret_old needs auth_secret"):
        load({"auth_secret_old": "x" * 32}, {})


@pytest.mark.parametrize(
    "given",
    [
        {"public_streams": True},
        {"skip_auth": True},
        {"anycable_path": "ds"},
        {"anycable": True, "anycable_path": ""},
        {"anycable": True, "anycable_path": "/ds", "path": "/ds"},
    ],
    ids=str,
)
def test_settings_of_anycable_that_cannot_work_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        load(given, {})
