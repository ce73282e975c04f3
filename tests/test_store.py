"""Fixtures on disk: what is read beside a body, names and links, and a recording's way into its place."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import multiprocessing
import os
import stat
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from harness.codings import Decoder
from harness.errors import HarnessError, SecretFound, UsageError
from harness.partial import Partial, sidecar_text
from harness.recording import Provenance, Read, Recording, Sent, sha256, sidecar_of
from harness.secrets import MIN_LENGTH, Guard, forms_of, masked, refuse_secrets
from harness.store import (
    expected_path,
    is_sidecar,
    load,
    providers_of,
    shapes_of,
    take_path,
    takes,
    valid_name,
)

QUIRKS = Path(__file__).parents[1] / "harness" / "quirks"
BODY = 'data: {"t":"café \u2028"}\r\n\r\n: ping\n\ndata: [DONE]\n\n'.encode()
KEY = 'sk-Test/0123+45"6789\\abcdef'
RECORDING = Recording(
    body=BODY, reads=[Read(5, 10), Read(len(BODY), 2000)], status=200, headers={"content-type": "text/event-stream"},
    end="eof", dialect="chat", shape="text", request=Sent(path="/v1", body={"model": "m", "n": 1.5, "x": "\u2028é"}),
    provenance=Provenance(kind="recorded", date="2026-01-02T03:04:05Z"),
)  # fmt: skip


def put(path: Path, body: bytes, beside: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    if beside is not None:
        text = beside if isinstance(beside, str) else json.dumps(beside)
        path.with_suffix(".json").write_text(text, encoding="utf-8")
    return path


def sidecar(**fields: Any) -> dict[str, Any]:
    return {"format": "sse-harness/1", "status": 200, "end": "cut", "reads": [[5, 1]], "sha256": sha256(BODY), **fields}


def kept(tmp_path: Path, recording: Recording, target: Path, **fields: Any) -> Path:
    with Partial(tmp_path, "openai", "text", **fields) as partial:
        for piece in recording.pieces():
            partial.write(piece)
        partial.finish(recording)
        return partial.keep(target)


# Reading


def test_what_is_kept_is_what_is_loaded(tmp_path: Path) -> None:
    target = take_path(tmp_path / "fixtures", "openai", "text")
    assert kept(tmp_path, RECORDING, target) == target
    loaded = load(target)
    assert loaded.recording == RECORDING
    assert (loaded.path, loaded.warning, loaded.case) == (target, None, None)
    text = target.with_suffix(".json").read_text(encoding="utf-8")
    assert json.loads(text)["sha256"] == sha256(BODY)
    assert json.loads(text)["format"] == "sse-harness/1"
    assert '\n  "reads": [[5,10],[' in text  # one line, so that a diff of two sidecars stays short


def test_a_bare_file(tmp_path: Path) -> None:
    for name in ("x.sse", "x.txt", "x", "x.json"):
        loaded = load(put(tmp_path / name, BODY))
        assert loaded.recording == Recording(body=BODY, end="eof")
        assert loaded.warning is None


@pytest.mark.parametrize(
    "beside", [{"model": "m"}, [1], "null", '"sse-harness/1"', {"verdict": "fatal"}, {"format": 7}], ids=str
)
def test_other_neighbours_are_ignored(tmp_path: Path, beside: Any) -> None:
    loaded = load(put(tmp_path / "x.sse", BODY, beside))
    assert (loaded.recording, loaded.warning, loaded.case) == (Recording(body=BODY, end="eof"), None, None)


def test_neighbours_that_may_have_been_meant_are_ignored_with_a_warning(tmp_path: Path) -> None:
    for beside, word in (("{oops", "not JSON"), ("", "not JSON"), (sidecar(format="sse-harness/2"), "sse-harness/2")):
        loaded = load(put(tmp_path / "x.sse", BODY, beside))
        assert loaded.recording == Recording(body=BODY, end="eof")
        assert loaded.warning is not None
        assert word in loaded.warning
        assert str(tmp_path / "x.json") in loaded.warning


def test_a_changed_body_wins_over_its_sidecar(tmp_path: Path) -> None:
    loaded = load(put(tmp_path / "x.sse", BODY + b"\n", sidecar(headers={"Content-Type": "a/b"})))
    assert (loaded.recording.body, loaded.recording.reads, loaded.recording.end) == (BODY + b"\n", [], "unknown")
    assert loaded.recording.status == 200
    assert loaded.warning is not None
    assert "sha256" in loaded.warning
    assert "\n" not in loaded.warning
    loaded = load(put(tmp_path / "x.sse", BODY, sidecar(headers={"Content-Type": "a/b"}, later="ignored")))
    assert (loaded.recording.end, loaded.recording.headers) == ("cut", {"content-type": "a/b"})
    assert loaded.warning is None


@pytest.mark.parametrize("reads", [[[9, 1], [5, 2]], [[5, 9], [9, 1]], [[10_000, 1]], [[-1, 1]], [[1, -1]]], ids=str)
def test_impossible_reads_are_dropped(tmp_path: Path, reads: list[list[int]]) -> None:
    loaded = load(put(tmp_path / "x.sse", BODY, sidecar(reads=reads)))
    assert (loaded.recording.reads, loaded.recording.end) == ([], "cut")
    assert loaded.warning is not None
    assert "reads" in loaded.warning


@pytest.mark.parametrize(
    "beside",
    [
        sidecar(status="200"), sidecar(reads=[[1]]), sidecar(reads=[["a", 2]]), sidecar(headers={"a": 1}),
        sidecar(end="over"), sidecar(request=[]), sidecar(provenance={"kind": "guessed"}), sidecar(headers=None),
        '{"format": "sse-harness/1", "status": 2', '{\n  "format": "sse-harness/1"', sidecar(sha256=1),
        {"verdict": "fatal", "expect": {}}, {"verdict": 1, "expect": 1, "family": "chat", "timing": [[1]]},
        {"verdict": 1, "expect": 1, "family": "chat", "timing": [[1e300, 1]]},
        {"verdict": 1, "expect": 1, "family": "chat", "headers": {"a": None}}, {"verdict": 1, "expect": 1, "family": 3},
    ],
    ids=range(16),
)  # fmt: skip
def test_broken_sidecars_and_case_files_are_named(tmp_path: Path, beside: Any) -> None:
    path = put(tmp_path / "x.sse", BODY, beside)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{tmp_path / 'x.json'}: ")
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "missing.sse", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(UsageError) as caught:
            load(path)
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("harness.store.MAX_FILE", 10)
    assert load(put(tmp_path / "x.sse", b"0123456789")).recording.body == b"0123456789"
    with pytest.raises(UsageError, match="larger than"):
        load(put(tmp_path / "x.sse", b"0123456789a"))


def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, BODY)
    os.close(write)
    assert load(f"/dev/fd/{read}").recording.body == BODY
    os.close(read)


def case(**fields: Any) -> dict[str, Any]:
    return {"family": "anthropic", "verdict": "fatal", "expect": {"text": ""}, **fields}


def test_a_case_file_counts(tmp_path: Path) -> None:
    beside = case(headers={"X-A": "b"}, timing=[[0.5, 5], [16500, len(BODY)]])
    loaded = load(put(tmp_path / "001-x.sse", BODY, beside))
    recording = loaded.recording
    assert (recording.body, recording.status, recording.end, recording.dialect) == (BODY, 200, "eof", "anthropic")
    assert recording.headers == {"x-a": "b"}
    assert recording.reads == [Read(5, 500), Read(len(BODY), 16_500_000)]
    assert loaded.case == beside
    assert loaded.warning is None
    loaded = load(put(tmp_path / "x.sse", BODY, case(timing=[[1, 10_000]])))
    assert loaded.recording.reads == []
    assert loaded.warning is not None


def test_a_coded_case_is_decoded_where_it_was_cut(tmp_path: Path) -> None:
    coder = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = coder.compress(BODY[:20]) + coder.flush(zlib.Z_SYNC_FLUSH)
    whole = first + coder.compress(BODY[20:]) + coder.flush()
    headers = {"Content-Encoding": "gzip"}
    beside = case(headers=headers, timing=[[1, len(first)], [2, len(whole)]])
    loaded = load(put(tmp_path / "x.sse", whole, beside))
    assert (loaded.recording.body, loaded.recording.decoded_from, loaded.warning) == (BODY, "gzip", None)
    assert loaded.recording.headers == {"content-encoding": "gzip"}
    assert loaded.recording.reads == [Read(20, 1000), Read(len(BODY), 2000)]
    cut = load(put(tmp_path / "x.sse", whole[:-9], case(headers=headers)))
    assert cut.recording.body == BODY
    assert cut.warning is not None
    assert "gzip" in cut.warning
    plain = load(put(tmp_path / "x.sse", BODY, case(headers=headers)))
    assert (plain.recording.body, plain.recording.decoded_from) == (BODY, None)
    assert plain.warning is not None
    identity = load(put(tmp_path / "x.sse", BODY, case(headers={"content-encoding": "identity"})))
    assert (identity.recording.body, identity.warning) == (BODY, None)


@pytest.mark.parametrize("path", sorted(QUIRKS.glob("*.sse")), ids=lambda path: path.stem)
def test_every_quirk_loads(path: Path) -> None:
    loaded = load(path)
    assert loaded.warning is None
    assert loaded.case is not None
    assert loaded.recording.dialect == loaded.case["family"]
    assert loaded.recording.decoded_from == loaded.case.get("headers", {}).get("content-encoding")


def test_decoding_does_not_depend_on_cuts() -> None:
    for data in (gzip.compress(BODY), gzip.compress(BODY) + gzip.compress(b""), gzip.compress(BODY) + b"\0\0\0", BODY):
        decoder = Decoder("gzip")
        whole = decoder.feed(data, 10_000)
        for cut in range(len(data) + 1):
            other = Decoder("gzip")
            assert other.feed(data[:cut], 10_000) + other.feed(data[cut:], 10_000) == whole == BODY
            assert (other.coding, other.whole, other.broken) == (decoder.coding, True, False)


# Names and places


def test_names() -> None:
    assert all(map(valid_name, ["a", "tool-call", "gpt-5", "0", "-"]))
    assert not any(map(valid_name, ["", "A", "a.b", "..", "a/b", "a\\b", "a\n", "ä", "a_b", "\u0661"]))
    for provider, shape in (("..", "text"), ("a", "../text"), ("a", ""), ("/etc", "passwd"), ("a\n", "text")):
        with pytest.raises(UsageError):
            take_path(Path("fixtures"), provider, shape)
        with pytest.raises(UsageError):
            takes(Path("fixtures"), provider, shape)
        with pytest.raises(UsageError):
            Partial(Path("fixtures"), provider, shape)


def test_listing(tmp_path: Path) -> None:
    folder = tmp_path / "openai"
    names = ["text.sse", "text.10.sse", "text.2.sse", "tool-call.sse", "text.json", "text.expected.json", "text.1.sse",
             "text.02.sse", "Text.sse", "stop.3.sse", "text.x.sse", "text.sse.bak"]  # fmt: skip
    for name in names:
        put(folder / name, BODY)
    put(tmp_path / "No" / "text.sse", BODY)
    (tmp_path / "empty").mkdir()
    assert [path.name for path in takes(tmp_path, "openai", "text")] == ["text.sse", "text.2.sse", "text.10.sse"]
    assert shapes_of(tmp_path, "openai") == ["stop", "text", "tool-call"]
    assert providers_of(tmp_path) == ["empty", "openai"]
    assert [takes(tmp_path, "nobody", "text"), shapes_of(tmp_path, "nobody"), providers_of(tmp_path / "no")] == [[]] * 3
    assert take_path(tmp_path, "openai", "text", 1) == folder / "text.sse"
    assert take_path(tmp_path, "openai", "text", 3) == folder / "text.3.sse"
    assert expected_path(folder / "text.2.sse") == folder / "text.2.expected.json"


def test_links_that_leave_the_fixtures_are_refused(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside" / "text.sse", BODY)
    root = tmp_path / "fixtures"
    put(root / "inside" / "text.sse", BODY)
    (root / "away").symlink_to(outside.parent)
    (root / "inside" / "stop.sse").symlink_to(outside)
    (root / "inside" / "error.sse").symlink_to("text.sse")
    (root / "circle").symlink_to("circle")
    for provider, shape in (("away", "text"), ("inside", "stop"), ("circle", "text")):
        for function in (take_path, takes):
            with pytest.raises(UsageError) as caught:
                function(root, provider, shape)
            assert "\n" not in str(caught.value)
    assert takes(root, "inside", "error") == [root / "inside" / "error.sse"]
    (tmp_path / "linked").symlink_to(root)
    assert len(takes(tmp_path / "linked", "inside", "text")) == 1


# On the way to disk


def test_a_partial_recording_can_be_read_at_any_moment(tmp_path: Path) -> None:
    before = sidecar_of(Recording(body=b"", dialect="chat", shape="text"))
    with Partial(tmp_path, "openai", "text", sidecar=before) as partial:
        assert load(partial.path).recording.end == "incomplete"
        for end, piece in ((20, BODY[:20]), (30, BODY[20:30])):
            partial.write(piece)
            loaded = load(partial.path)
            assert (loaded.recording.body, loaded.warning) == (BODY[:end], None)
            assert (loaded.recording.end, loaded.recording.dialect) == ("incomplete", "chat")
        folder = tmp_path / ".harness"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "partial")] == [0o700, 0o700]
        assert (folder / ".gitignore").read_text(encoding="ascii") == "*\n"
        partial.discard()
    assert list((tmp_path / ".harness" / "partial").iterdir()) == []
    assert partial.kept_at is None


def test_what_is_not_kept_is_set_aside(tmp_path: Path) -> None:
    paths = []
    for _ in range(2):
        with Partial(tmp_path, "openai", "text") as partial:
            partial.write(BODY)
            partial.finish(RECORDING)
            paths.append(partial.set_aside())
    folder = tmp_path / ".harness" / "failed" / "openai"
    assert {path.parent for path in paths} == {folder}
    assert len({path.name for path in paths}) == 2
    assert all(load(path).recording == RECORDING for path in paths)
    partial = Partial(tmp_path, "openai", "stop")
    partial.write(BODY)
    partial.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert partial.kept_at is not None
    assert (load(partial.kept_at).recording.body, load(partial.kept_at).recording.end) == (BODY, "incomplete")
    with Partial(tmp_path, "openai", "stop"):
        pass  # nothing came: nothing stays
    assert len(list(folder.iterdir())) == 6
    assert list((tmp_path / ".harness" / "partial").iterdir()) == []


def test_keep_replaces_a_pair_and_no_foreign_file(tmp_path: Path) -> None:
    target = take_path(tmp_path / "fixtures", "openai", "text")
    put(target, b"old", {"my": "request"})
    with pytest.raises(UsageError, match="not written by sse-harness"):
        kept(tmp_path, RECORDING, target)
    assert target.read_bytes() == b"old"
    assert len(list((tmp_path / ".harness" / "failed" / "openai").glob("*.sse"))) == 1  # and the recording is not lost
    put(target, b"old", sidecar(format="sse-harness/7"))
    kept(tmp_path, RECORDING, target)
    assert load(target).recording == RECORDING
    assert sorted(path.name for path in target.parent.iterdir()) == ["text.json", "text.sse"]
    assert is_sidecar(target.with_suffix(".json"))


def test_misuse_is_a_bug(tmp_path: Path) -> None:
    with Partial(tmp_path, "openai", "text") as partial:
        partial.write(BODY)
        with pytest.raises(HarnessError, match="before it was finished"):
            partial.keep(tmp_path / "x.sse")
        with pytest.raises(HarnessError, match="bytes written"):
            partial.finish(Recording(body=b"other"))
        partial.finish(Recording(body=BODY))
        with pytest.raises(HarnessError, match="after its end"):
            partial.write(b"more")


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("before", ["pair", "bare", "nothing"])
def test_a_crash_between_the_renames_never_mixes_two_recordings(
    tmp_path: Path, step: int, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Recording(body=b"data: old\n\n", end="eof")
    target = take_path(tmp_path / "fixtures", "openai", "text")
    if before == "pair":
        old = msgspec.structs.replace(old, status=418, shape="text")
        kept(tmp_path, old, target)
    elif before == "bare":
        put(target, old.body)
    partial = Partial(tmp_path, "openai", "text")
    partial.write(BODY)
    partial.finish(RECORDING)
    rename, calls = os.replace, 0

    def dying(source: Any, to: Any) -> None:
        nonlocal calls
        if calls == step:
            raise Crash
        calls += 1
        rename(source, to)

    monkeypatch.setattr(os, "replace", dying)
    with pytest.raises(Crash):
        partial.keep(target)
    monkeypatch.undo()
    if before == "nothing" and step < 2:
        assert not target.exists()
    else:
        loaded = load(target)
        assert loaded.warning is None
        assert loaded.recording == (old if step < 2 else RECORDING)
    kept(tmp_path, old, target)  # and the next one cleans up
    assert load(target).recording == old
    assert sorted(path.name for path in target.parent.iterdir()) == ["text.json", "text.sse"]


def test_fixtures_on_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.replace

    def within(source: Any, to: Any) -> None:
        if Path(source).parent != Path(to).parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, to)

    monkeypatch.setattr(os, "replace", within)
    target = kept(tmp_path, RECORDING, take_path(tmp_path / "fixtures", "openai", "text"))
    assert load(target).recording == RECORDING
    assert sorted(path.name for path in target.parent.iterdir()) == ["text.json", "text.sse"]
    assert list((tmp_path / ".harness" / "partial").iterdir()) == []


def test_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = Partial(tmp_path, "openai", "text")

    def full(_: int, __: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UsageError, match="No space left on device"):
        partial.write(BODY)
    monkeypatch.undo()
    partial.discard()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be written"):
        Partial(tmp_path / "file", "openai", "text")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".harness").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        Partial(tmp_path / "linked", "openai", "text")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def _record_many(workdir: Path, number: int, count: int) -> None:
    """In another process: set recordings aside and keep the same fixture, as fast as possible."""
    for turn in range(count):
        body = b"data: %d %d\n\n" % (number, turn)
        for keep in (True, False):
            with Partial(workdir, "openai", "text") as partial:
                partial.write(body)
                partial.finish(Recording(body=body, shape=f"s{number}-{turn}", end="eof"))
                if keep:
                    partial.keep(take_path(workdir / "fixtures", "openai", "text"))


def test_parallel_processes_never_share_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_record_many, args=(tmp_path, number, 25)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    aside = list((tmp_path / ".harness" / "failed" / "openai").glob("*.sse"))
    bodies = {load(path).recording.body for path in aside}
    assert len(aside) == len(bodies) == 75
    for path in (*aside, tmp_path / "fixtures" / "openai" / "text.sse"):
        loaded = load(path)
        numbers = loaded.recording.body.split()[1:]
        assert loaded.warning is None
        assert loaded.recording.shape == f"s{numbers[0].decode()}-{numbers[1].decode()}"


# Keys


def spellings() -> list[bytes]:
    raw = KEY.encode()
    return [
        raw, json.dumps(KEY).encode(), quote(KEY, safe="").encode(), json.dumps(KEY).replace("/", "\\/").encode(),
        base64.b64encode(raw), base64.urlsafe_b64encode(raw).rstrip(b"="),
        *(base64.b64encode(b"u" * n + b":" + raw + b"tail") for n in range(4)),
    ]  # fmt: skip


def files(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("spelling", spellings(), ids=range(len(spellings())))
def test_no_spelling_of_a_key_reaches_the_disk_wherever_it_is_cut(tmp_path: Path, spelling: bytes) -> None:
    body = b'data: {"a":"' + spelling + b'"}\n\n'
    forms = forms_of([KEY])

    def write(partial: Partial, pieces: list[bytes]) -> None:
        for piece in pieces:
            partial.write(piece)
            on_disk = partial.path.read_bytes()
            assert body.startswith(on_disk)
            assert not any(form[: len(form) // 2] in on_disk for form in forms)

    cuts = [[body[:cut], body[cut:]] for cut in range(0, len(body) + 1, 3)]
    for pieces in (*cuts, [bytes([byte]) for byte in body]):
        partial = Partial(tmp_path, "openai", "text", secrets=[KEY])
        with pytest.raises(SecretFound) as caught:
            write(partial, pieces)
        assert KEY not in str(caught.value)
        assert not partial.path.exists()
    assert set(files(tmp_path)) == {".gitignore"}


def test_a_body_that_only_looks_like_a_key_is_kept_whole(tmp_path: Path) -> None:
    target = take_path(tmp_path / "fixtures", "openai", "text")
    for body in (b"data: " + KEY[:7].encode() + b"\n\n" + KEY[:5].encode(), b"s" * 1000, b"sksksk-sk-Tesk-Test", b""):
        recording = Recording(body=body, reads=[Read(n + 1, n) for n in range(len(body))], end="eof")
        kept(tmp_path, recording, target, secrets=[KEY])
        assert target.read_bytes() == body
        assert "".join(chr(byte) for byte in body) == masked(body.decode(), [KEY])


def test_a_body_that_ends_within_a_key_is_refused(tmp_path: Path) -> None:
    with Partial(tmp_path, "openai", "text", secrets=[KEY]) as partial:
        partial.write(b"data: " + KEY.encode()[:-2])
        with pytest.raises(SecretFound, match="ends in the middle"):
            partial.finish(Recording(body=b"data: " + KEY.encode()[:-2]))
    partial = Partial(tmp_path, "openai", "text", secrets=[KEY])
    partial.write(b"data: " + KEY.encode()[:-2])
    with pytest.raises(SecretFound):  # never finished: found when it is set aside
        partial.set_aside()
    assert set(files(tmp_path)) == {".gitignore"}


def test_a_key_in_the_sidecar_is_refused(tmp_path: Path) -> None:
    for recording in (
        Recording(body=BODY, headers={"server": f"x {KEY}"}),
        Recording(body=BODY, request=Sent(body={"deep": [KEY]})),
    ):
        with Partial(tmp_path, "openai", "text", secrets=[KEY]) as partial:
            partial.write(BODY)
            with pytest.raises(SecretFound):
                partial.finish(recording)
    with pytest.raises(SecretFound):
        Partial(tmp_path, "openai", "text", secrets=[KEY], sidecar=sidecar_of(Recording(body=b"", dialect=KEY)))
    assert set(files(tmp_path)) == {".gitignore"}


def test_guard_and_mask() -> None:
    assert forms_of(["", "short", "EMPTY", "ollama", " " * 20, "x" * (MIN_LENGTH - 1)]) == ()
    refuse_secrets(b"ollama EMPTY", ["ollama", "EMPTY"])
    guard = Guard([])
    assert guard.feed(b"anything") + guard.finish() == b"anything"
    with pytest.raises(SecretFound):  # a whole header value: the scheme may be missing in the echo
        refuse_secrets(b"got abcdefgh12", ["Bearer abcdefgh12"])
    with pytest.raises(SecretFound):
        refuse_secrets("schlüssel-é".encode(), ["schlüssel-é"])
    with pytest.raises(SecretFound):
        refuse_secrets(rb"schl\u00fcssel-\u00e9", ["schlüssel-é"])
    assert masked(json.dumps({"a": KEY, "b": 1}), [KEY]) == '{"a": "***", "b": 1}'


def test_the_sidecar_text_holds_whatever_there_is() -> None:
    odd = Recording(body=b"", headers={"server": "\ud800\x7f"}, request=Sent(body={"\n": ["a\nb", 2**70]}))
    text = sidecar_text(sidecar_of(odd), end="eof", digest=None)
    value = json.loads(text.encode())
    assert value["request"]["body"] == {"\n": ["a\nb", 2**70]}
    assert value["headers"] == {"server": "\ud800\x7f"}
    assert value["reads"] == []
