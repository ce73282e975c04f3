from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import settings
from harness.errors import ConfigError
from harness.settings import Place, load_settings


def loaded(tmp_path: Path, text: str | bytes) -> Place:
    path = tmp_path / "s.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(path, "s.yaml")


def problem(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "s.yaml: is empty; fill it in, or leave it out"),
        ("# nothing\n", "s.yaml: is empty; fill it in, or leave it out"),
        ("a: 1\nb: 2\na: 3\n", "s.yaml: a: given twice, in lines 1 and 3; keep one"),
        ("a: {x: {b: 1, b: 2}}", "s.yaml: a.x.b: given twice, in line 1; keep one"),
        ("a:\n - x: 1\n - y: 1\n   y: 2\n", "s.yaml: a[1].y: given twice, in lines 3 and 4; keep one"),
        ("a: {1: x}", "s.yaml: a: line 1: a key must be text, but is 1; quote it"),
        ("a:\n  no: x", "s.yaml: a: line 2: a key must be text, but is no; quote it"),
        ("? [a]\n: x", "s.yaml: line 1: a key must be text, but is a list or mapping; quote it"),
        ("a: [1", "s.yaml: line 1, column 6: expected ',' or ']', but got '<stream end>'"),
        (
            "a:\n\t- b",
            "s.yaml: line 2, column 1: found character '\\t' that cannot start any token; "
            "indent with blanks, not with tabs",
        ),
        ("a: *b", "s.yaml: line 1, column 4: found undefined alias 'b'"),
        ("a: &x [*x]", "s.yaml: line 1, column 8: an alias refers to what it stands in"),
        ("a: 1\n---\nb: 1", "s.yaml: line 2, column 1: but found another document"),
        ("a: 1\nb: \x07", "s.yaml: line 2: holds a control character; remove it"),
        (b"a: 1\nb: \xff", "s.yaml: line 2: is not UTF-8; save the file as UTF-8"),
        ("a: " + "[" * 60, "s.yaml: line 1, column 53: nested more than 50 deep"),
        ("#" * (256 * 1024 + 1), "s.yaml: is larger than 256 KiB; a file of settings is not"),
        (
            "a: {<<: 3}",
            "s.yaml: line 1, column 9: expected a mapping or list of mappings for merging, but found scalar",
        ),
        ('"a\\nb": 1\n"a\\nb": 2', 's.yaml: "a\\nb": given twice, in lines 1 and 2; keep one'),
    ],
)
def test_what_cannot_be_a_file_of_settings(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problem(tmp_path, text) == expected


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, "here")
    assert str(caught.value) == "here: cannot be read: Is a directory"


def test_aliases_are_counted_as_often_as_they_are_used(tmp_path: Path) -> None:
    """A billion laughs: nine lines that stand for 9^9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    text = "\n".join(lines)
    assert problem(tmp_path, text) == (
        "s.yaml: line 5, column 15: more than 20000 values, aliases counted; write less, or fewer aliases"
    )


def test_aliases_and_merge_keys_work(tmp_path: Path) -> None:
    root = loaded(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n")
    assert root.json() == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}


def test_json_values_are_as_json_has_them(tmp_path: Path) -> None:
    text = "{a: 1, b: -2.5, c: 1e-3, d: true, e: null, f: ~, g: x, h: '4.10', i: [1, {}], j: .5, k: 2.5E+3, l: ''}"
    assert loaded(tmp_path, text).json() == {
        "a": 1, "b": -2.5, "c": 0.001, "d": True, "e": None, "f": None, "g": "x", "h": "4.10", "i": [1, {}], "j": 0.5,
        "k": 2500.0, "l": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("no", 'YAML reads no as false; write true or false, or "no" in quotes'),
        ("On", 'YAML reads On as true; write true or false, or "On" in quotes'),
        ("1_000", 'YAML reads 1_000 as a number; write a plain decimal number, or "1_000" in quotes'),
        ("12:30", 'YAML reads 12:30 as a number; write a plain decimal number, or "12:30" in quotes'),
        ("010", 'YAML reads 010 as a number; write a plain decimal number, or "010" in quotes'),
        ("0x1F", 'YAML reads 0x1F as a number; write a plain decimal number, or "0x1F" in quotes'),
        (".inf", 'YAML reads .inf as a number; write a plain decimal number, or ".inf" in quotes'),
        (".nan", 'YAML reads .nan as a number; write a plain decimal number, or ".nan" in quotes'),
        ("1e999", 'YAML reads 1e999 as a number; write a plain decimal number, or "1e999" in quotes'),
        ("2027-06-30", 'YAML reads 2027-06-30 as a date; write "2027-06-30" in quotes'),
        ("!!binary aGk=", 'YAML reads aGk= as binary; write "aGk=" in quotes'),
    ],
)
def test_what_yaml_turns_into_something_else_must_be_quoted(tmp_path: Path, raw: str, expected: str) -> None:
    root = loaded(tmp_path, f"a: [{raw}]")
    with pytest.raises(ConfigError) as caught:
        root.json()
    assert str(caught.value) == f"s.yaml: a[0]: {expected}"


@pytest.mark.parametrize(
    ("reader", "raw", "expected"),
    [
        ("text", "4.10", 'must be text, but YAML reads 4.10 as a number; write "4.10"'),
        ("text", "no", 'must be text, but YAML reads no as false; write "no"'),
        ("text", "2027-06-30", 'must be text, but YAML reads 2027-06-30 as a date; write "2027-06-30"'),
        ("text", "", "must be text, but is empty; leave the key out if there is nothing to say"),
        ("text", "' '", "must not be empty"),
        ("text", "[]", "must be text, but is a list"),
        ("text", "{}", "must be text, but is a mapping"),
        ("members", "x", "must be a mapping (key: value), but is x"),
        ("entries", "x", "must be a list, but is x"),
        ("seconds", "x", "must be a number of seconds above 0, but is x"),
        ("seconds", "0", "must be a number of seconds above 0, but is 0"),
        ("seconds", "true", "must be a number of seconds above 0, but is true"),
        ("day", "30.6.2027", "must be a day, such as 2027-06-30, but is 30.6.2027"),
        ("day", "2027-06-31", "must be a day, such as 2027-06-30, but is 2027-06-31"),
        ("day", "2027-W26-3", "must be a day, such as 2027-06-30, but is 2027-W26-3"),
        ("day", "2027-06-30 12:00:00", "must be a day, such as 2027-06-30, but is 2027-06-30 12:00:00"),
        ("day", "\"\\e[31m\"", 'must be a day, such as 2027-06-30, but is "\\u001b[31m"'),
        ("day", "[]", "must be a day, such as 2027-06-30, but is a list"),
    ],
)
def test_types(tmp_path: Path, reader: str, raw: str, expected: str) -> None:
    place = loaded(tmp_path, f"a: {raw}").members()["a"]
    with pytest.raises(ConfigError) as caught:
        getattr(place, reader)()
    assert str(caught.value) == f"s.yaml: a: {expected}"


def test_readers(tmp_path: Path) -> None:
    text = "{t: x, s: 3, f: 0.5, i: 7, d: 2027-06-30, q: '2027-06-30', w: two, l: [a, b]}"
    places = loaded(tmp_path, text).members(tuple("tsfidqwl"))
    assert places["t"].text() == "x"
    assert [places[key].seconds() for key in "sf"] == [3.0, 0.5]
    assert places["i"].integer(1, 7) == 7
    assert [places[key].day() for key in "dq"] == [date(2027, 6, 30)] * 2
    assert places["w"].one_of(("one", "two")) == "two"
    assert [entry.key for entry in places["l"].entries()] == ["l[0]", "l[1]"]
    for case, expected in (
        (lambda: places["i"].integer(1, 6), "s.yaml: i: must be a whole number from 1 to 6, but is 7"),
        (lambda: places["f"].integer(1, 6), "s.yaml: f: must be a whole number from 1 to 6, but is 0.5"),
        (lambda: places["w"].one_of(("a", "tow")), "s.yaml: w: two is not known; did you mean 'tow'? allowed: a, tow"),
        (lambda: places["w"].one_of(("a", "b")), "s.yaml: w: two is not known; allowed: a, b"),
    ):
        call: Any = case
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value) == expected


def test_pyyaml_alone_would_let_these_through() -> None:
    """Why this module exists: if it fails, PyYAML has learnt, and less is needed here."""
    assert yaml.safe_load("a: 1\na: 2") == {"a": 2}
    assert yaml.safe_load("model: 4.10") == {"model": 4.1}
    assert yaml.safe_load("a: [1_000, 12:30, 1e-3]") == {"a": [1000, 750, "1e-3"]}
    assert settings.MAX_BYTES == 256 * 1024
