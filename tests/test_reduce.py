import json

from harness.events import Finish, ToolCall
from harness.reduce import events_of, reduce


def chunk(**choice: object) -> str:
    choice = {"index": 0, "delta": {}, "finish_reason": None, **choice}
    return "data: " + json.dumps({"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def test_seed_keepalive_comment_no_blank_lines_and_arguments_split_at_offset_4() -> None:
    """The migration diary's own test (SEEDS C): the joined arguments parse and the finish reason is seen."""
    arguments = '{"city": "Paris"}'
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    fragments = [{"index": 0, "function": {"arguments": part}} for part in (arguments[:4], arguments[4:])]
    lines = [
        ": ping",
        chunk(delta={"role": "assistant", "content": None, "tool_calls": [call]}),
        *(chunk(delta={"tool_calls": [fragment]}) for fragment in fragments),
        chunk(finish_reason="tool_calls"),
        "data: [DONE]",
    ]
    body = "\n".join(lines).encode()
    message = reduce(body).message()
    assert [json.loads(call.arguments) for call in message.tool_calls] == [{"city": "Paris"}]
    assert (message.finish_reason, message.terminal) == ("tool_calls", "done")
    events = events_of(body)
    assert [event.arguments for event in events if isinstance(event, ToolCall)] == ["", '{"ci', 'ty": "Paris"}']
    assert [event.raw for event in events if isinstance(event, Finish)] == ["tool_calls"]
    assert {note.code for note in message.notes} >= {"sse.events-glued"}
