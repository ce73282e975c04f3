from hypothesis import given
from hypothesis import strategies as st

from harness.sse import LineParser, ServerSentEvent, SSEParser, StrayLine


def parse(*pieces: bytes) -> tuple[list[ServerSentEvent | StrayLine], dict[str, tuple[int, int]]]:
    parser = SSEParser()
    out = [item for piece in pieces for item in parser.feed(piece)] + parser.finish()
    return out, parser.seen


VECTORS = [
    b"data: {\"a\":1}\n\ndata: [DONE]\n\n",
    b"\xef\xbb\xbfdata: x\n\n",
    b"data:x\r\ndata: y\r\n\r\n: c\r\n\r\nid: 3\r\ndata: z\r\n\r\n",
    b"data: x\rdata: y\r\rdata: z\r\r",
    b"\n\n\ndata: a\n\n\n\n\nevent: n\ndata: b\n\nevent:only\n\nretry: 5\n\ndata\n\ndata:\n\n",
    b"event: n\ndata: b\nfoo: bar\n\nplain\n\n{\"error\": {\n\n}}\n",
    b"data: a\r\n\r\n\r\ndata: b\n\ndata: c\r\rdata: d",
    b": ping\ndata: {\ndata: }\nid: 7\n\ndata: q",
    b"\xef\xbb", b"", b"\n", b"\r", b"\r\n", b"data: x\n", b"dat", b"data:  \n\n", b"data: x\r", b"data: x\r\r",
    "data: \u2028caf\u00e9\n\n".encode(), b"data: \xff\xfe\n\n", b"id: a\0b\ndata: x\n\n",
]  # fmt: skip


def test_where_the_body_is_cut_never_shows() -> None:
    for body in VECTORS:
        whole = parse(body)
        for cut in range(len(body) + 1):
            assert parse(body[:cut], body[cut:]) == whole, (body, cut)
        assert parse(*(body[i : i + 1] for i in range(len(body)))) == whole, body


def test_line_mode_and_fast_path_agree() -> None:
    body = b"event: n\ndata: b\n\ndata: a\ndata: c\n\n: k\n\ndata:nospace\n\n"
    fast, _ = parse(body)
    parser = SSEParser()
    parser._line_mode = True  # as after the first CR
    assert parser.feed(body) + parser.finish() == fast


BLOCKS = [
    b"event: delta\ndata: {}", b"event: delta\ndata: {1}", b"event: ping\ndata: {}", b"event: delta\ndata:  x",
    b"event: delta\ndata: ", b"event: delta\ndata:  ", b"event: delta\ndata: a\ndata: b", b"event: a\ndata: a\nid: 1",
    b"event: delta\ndata: a\nfoo: 1", b"event: deltas\ndata: a", b"event:delta\ndata: a", b"data: a", b": c", b"",
    b"event: \xff\ndata: a", b"event: delta\ndata: " + b"x" * 65600,
]  # fmt: skip
LONG = len(BLOCKS) - 1
NUMBERS = st.integers(0, LONG)  # of blocks: hypothesis would not print the long one


@given(numbers=st.lists(NUMBERS, max_size=12), size=st.sampled_from([1, 7, 40, 10_000]))
def test_named_events_in_a_row_are_read_as_line_by_line(numbers: list[int], size: int) -> None:
    """What most events of a stream begin with is known after two of them; none is taken for what it is not."""
    blocks = [BLOCKS[number] for number in numbers if number != LONG or size > 40]
    body = b"".join(block + b"\n\n" for block in [*blocks, *blocks])
    fast = parse(*(body[start : start + size] for start in range(0, len(body), size)))
    parser = SSEParser()
    parser._bom_possible, parser._line_mode = False, True
    assert (parser.feed(body) + parser.finish(), parser.seen) == fast


def test_standard_rules() -> None:
    out, seen = parse(b"\xef\xbb\xbf: hi\ndata: a\ndata:b\nid: 4\nevent: tick\nx: y\n\ndata\n\nretry: 10\n\ndata: lost")
    assert out == [
        StrayLine(b"x: y", 41, 4),
        ServerSentEvent(b"a\nb", "tick", "4", 3, 43, ((14, 1), (21, 1))),
        ServerSentEvent(b"lost", "", "4", 64, 10, (), False),
    ]
    assert set(seen) == {
        "bom", "comment", "no-space", "id", "event-name", "unknown-field", "multi-line-data", "empty-data",
        "control-only", "retry", "lf",
    }  # fmt: skip


def test_u2028_does_not_end_a_line() -> None:
    out, _ = parse("data: a\u2028b\x85c\x0bd\n\n".encode())
    assert [item.data for item in out if isinstance(item, ServerSentEvent)] == ["a\u2028b\x85c\x0bd".encode()]


def test_length_runs_over_the_lines_of_the_event() -> None:
    for body in (b"data: a\n\ndata: b\n\n", b"data: a\r\n\r\ndata: b\r\n\r\n", b"data: a\r\rdata: b\r\r"):
        out, _ = parse(body)
        assert [body[e.at : e.at + e.length].strip() for e in out] == [b"data: a", b"data: b"]


def test_a_long_line_in_small_pieces_is_linear() -> None:
    """Counted in joined bytes, not seconds: no piece may be copied more than a few times."""
    body = b"data: " + b"x" * 10_000_000 + b"\n\n"
    for prefix in (b"", b": c\r\n"):
        parser = SSEParser()
        parser.feed(prefix)
        out: list[ServerSentEvent | StrayLine] = []
        for start in range(0, len(body), 100):
            out += parser.feed(body[start : start + 100])
            assert len(parser._parts) == 0 or len(parser._parts[-1]) <= 106
        assert [len(e.data) for e in out if isinstance(e, ServerSentEvent)] == [10_000_000]
        assert "long-line" in parser.seen


def test_ndjson_lines() -> None:
    body = b'{"a":1}\n\n{"b":2}\r\n{"c":3}'
    for cut in range(len(body) + 1):
        parser = LineParser()
        out = parser.feed(body[:cut]) + parser.feed(body[cut:]) + parser.finish()
        assert [(e.data.strip(), e.at) for e in out if isinstance(e, ServerSentEvent)] == [
            (b'{"a":1}', 0), (b'{"b":2}', 9), (b'{"c":3}', 18),
        ]  # fmt: skip
