"""What the fixtures say, read from their bytes by eye: the other side of tests/test_fixtures.py."""

from __future__ import annotations

from typing import Any, NamedTuple

PARIS = {"city": "Paris", "unit": "celsius"}
TOKYO = {"city": "Tokyo", "unit": "celsius"}
ILE = {"city": "Paris, Île-de-France", "unit": "celsius"}
SCRIPTED = "Hello there! This is a small "
RIDE = "The ride takes 3 hours and 25 minutes."
QUIZ = {"answer": "forty-two", "score": 42}


class Said(NamedTuple):
    """What a fixture says. `text` and `error` are how they begin (`text` may be JSON, then as a value).

    `call`, `second`: id (null: any, as it differs in every recording), name, arguments; `tokens`: input, output.
    """

    text: Any = ""
    call: tuple[str | None, str, Any] | None = None
    finish: str | None = None
    tokens: tuple[int, int] | None = None
    error: str | None = None
    second: tuple[str | None, str, Any] | None = None
    reasoning: str = ""
    refusal: str = ""


SAID = {
    "vllm/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "vllm/tool-call": Said("", ("chatcmpl-tool-bcab95be3866d43c", "get_weather", PARIS), "tool_calls", (258, 28)),
    "vllm/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "vllm/error": Said("tick tock ", error="EngineCore encountered an issue."),
    "litellm/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "litellm/tool-call": Said("", ("Mgxywz5rB7ySbadzhZgGMfREktEerx3G", "get_weather", PARIS), "tool_calls", (201, 28)),
    "litellm/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "litellm/error": Said("tick tock ", error="litellm.InternalServerError: InternalServerError: Hosted_vllm"),
    "litellm-over-anthropic/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "litellm-over-anthropic/tool-call": Said(
        "", ("uxBXvvYTNp2tNCI14UIABrxg8SObO29m", "get_weather", PARIS), "tool_calls", (201, 28)
    ),
    "litellm-over-anthropic/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    # The upstream's error is nowhere on the wire: half an answer that says it is whole.
    "litellm-over-anthropic/error": Said("tick tock ", None, "stop", (13, 226)),
    "transformers/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "transformers/tool-call": Said(
        "", ("a969233e-9c0a-4727-bbce-cac2b23d96e5_tool_call_0", "get_weather", PARIS), "tool_calls", (258, 28)
    ),
    # The stop string itself is in the text.
    "transformers/stop": Said(SCRIPTED + "scripted", None, "stop", (7, 12)),
    "transformers/error": Said("", error="`max_new_tokens` must be greater than 0"),
    "dynamo/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "dynamo/tool-call": Said(
        "", ("call-827f4699-179d-483a-b73b-39a8c9a22bd2", "get_weather", PARIS), "tool_calls", (258, 28)
    ),
    "dynamo/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "dynamo/error": Said("tick tock tick t", error="Internal server error"),
    "openai/text": Said("Good morning! Καλημέρα from a café in 東京", None, "stop", (14, 19)),
    "openai/tool-call": Said("", ("call_0SynthParis00Weather01", "get_weather", ILE), "tool_calls", (71, 20)),
    "openai/stop": Said("one two three ", None, "stop", (15, 5)),
    "openai/error": Said(error="tool_choice names 'get_time'"),
    "dashscope/text": Said("早上好，今天的茶是龙井", None, "stop", (16, 23)),
    "dashscope/tool-call": Said("", ("call_5a1e7e5701c0ffee00bead", "get_weather", ILE), "tool_calls", (158, 24)),
    # Cut by the model: the text as it came, never repaired.
    "dashscope/tool-call.2": Said(
        "",
        ("call_5a1e7e5702c0ffee00bead", "get_weather", '{"city": "Paris, Île-de-France", "unit": "celsius"'),
        "tool_calls",
        (158, 24),
    ),
    "dashscope/stop": Said("one two three ", None, "stop", (19, 5)),
    "dashscope/error": Said(error="The function named in tool_choice is missing"),
    "alibaba-compatible/text": Said(
        "Hello from the tide tables: the sea at Peñíscola", None, "stop", (18, 31), reasoning="One short sentence; keep"
    ),
    # The overwrite trap: both came first and were followed by "".
    "alibaba-compatible/tool-call": Said(
        "", ("call_a11baba0c0ffee0000000001", "get_weather", ILE), "tool_calls", (164, 27)
    ),
    "alibaba-compatible/stop": Said("one two three ", None, "stop", (20, 5)),
    "alibaba-compatible/error": Said(error="tool_choice: no function of that name"),
    "ollama/text": Said("Hi there, salt & pepper are ready, crème brûlée", None, "stop", (33, 15)),
    "ollama/tool-call": Said("", ("", "get_weather", ILE), "tool_calls", (171, 25)),
    "ollama/tool-call.2": Said("", ("call_zr4k9w2m", "get_weather", ILE), "tool_calls", (171, 49)),
    "ollama/stop": Said("one two three ", None, "stop", (36, 6)),
    "ollama/error": Said(error="tiny-teapot does not support tools"),
    "openai-responses/text": Said("Good evening from the jetty, Ólafur: the herring", None, "completed", (14, 19)),
    "openai-responses/tool-call": Said("", ("call_0SynthResp00Paris01", "get_weather", ILE), "completed", (68, 24)),
    "openai-responses/error": Said(error="tool_choice asks for 'get_time'"),
    "openai-responses/parallel-tools": Said(
        "", ("call_0SynthResp00Paris02", "get_weather", ILE), "completed", (84, 47),
        second=("call_0SynthResp00Tokyo02", "get_weather", TOKYO),
    ),
    "openai-responses/reasoning": Said(
        RIDE, None, "completed", (38, 141), reasoning="**Counting the ride**\n\nFrom 9:40 to 12:40 are three hours,"
    ),
    "openai-responses/structured": Said(QUIZ, None, "completed", (71, 12)),
    "openai-responses/refusal": Said("", None, "completed", (62, 14), refusal="I’m sorry, but I won’t help with that."),
    "openai-responses/logprobs": Said("Red, teal, grey.", None, "completed", (11, 8)),
    "openai-responses/multi-turn": Said("It is sunny in Paris, at 21 degrees.", None, "completed", (112, 14)),
    "anthropic/text": Said("Bonjour from the lockkeeper’s hut at Öresund ⛴", None, "end_turn", (15, 27)),
    "anthropic/tool-call": Said("", ("toolu_01SynthParisC0ffeeC0ffee01", "get_weather", ILE), "tool_use", (402, 61)),
    "anthropic/stop": Said("one two three ", None, "stop_sequence", (18, 7)),
    "anthropic/error": Said(error="tool_choice.name: no tool named get_time"),
    "anthropic/parallel-tools": Said(
        "I’ll look up both cities.", ("toolu_01SynthParisC0ffeeC0ffee02", "get_weather", ILE), "tool_use", (421, 128),
        second=("toolu_01SynthTokyoC0ffeeC0ffee02", "get_weather", TOKYO),
    ),
    "anthropic/reasoning": Said(RIDE, None, "end_turn", (52, 63), reasoning="From 9:40 to 12:40 is three hours; then"),
    "anthropic/structured": Said(QUIZ, None, "end_turn", (188, 14)),
    # Refused in mid-sentence: what came before stays.
    "anthropic/refusal": Said("I can’t help with", None, "refusal", (31, 6)),
    "anthropic/multi-turn": Said("It’s sunny in Paris, at 21 degrees.", None, "end_turn", (498, 17)),
    "gemini/text": Said("Buenos días from the lighthouse at Cabo Peñas 🌅.", None, "STOP", (8, 17)),
    "gemini/tool-call": Said("", ("synth7k2", "get_weather", ILE), "STOP", (84, 24)),
    "gemini/stop": Said("one two three ", None, "STOP", (10, 4)),
    "gemini/error": Said(error="function_calling_config.allowed_function_names holds get_time"),
    "gemini/parallel-tools": Said(
        "", ("synth8p1", "get_weather", ILE), "STOP", (98, 43), second=("synth8t2", "get_weather", TOKYO)
    ),
    "gemini/reasoning": Said(RIDE, None, "STOP", (31, 12), reasoning="**Timing the ride**\n\nFrom 9:40 to 12:40"),
    "gemini/structured": Said(QUIZ, None, "STOP", (22, 12)),
    # The filter cut in: the last candidate has a reason and no content.
    "gemini/refusal": Said("I can", None, "SAFETY", (19, 2)),
    "gemini/logprobs": Said("Red, teal, grey.", None, "STOP", (5, 6)),
    "gemini/multi-turn": Said("It is sunny in Paris, at 21 degrees.", None, "STOP", (141, 12)),
    "ollama-native/text": Said("Hej from the smokehouse in Skåne, eels & rye 🍞.", None, "stop", (17, 15)),
    "ollama-native/tool-call": Said("", ("call_q4synth1", "get_weather", ILE), "stop", (171, 25)),
    "ollama-native/stop": Said("one two three ", None, "stop", (20, 6)),
    "ollama-native/error": Said(error='format: "yaml" is neither'),
    "ollama-native/parallel-tools": Said(
        "", ("call_q4synth2", "get_weather", ILE), "stop", (186, 47), second=("call_q4synth3", "get_weather", TOKYO)
    ),
    "ollama-native/reasoning": Said(
        "The ride takes 3 hours 25 minutes.", None, "stop", (41, 26), reasoning="From 9:40 to 12:40 is three hours,"
    ),
    "ollama-native/structured": Said(QUIZ, None, "stop", (33, 11)),
    "ollama-native/logprobs": Said("Red, teal, grey.", None, "stop", (13, 7)),
    "ollama-native/multi-turn": Said("It is sunny in Paris, at 21 degrees.", None, "stop", (214, 11)),
    "cohere/text": Said("Olá from the cork forest near Évora 🌳.", None, "COMPLETE", (488, 14)),
    "cohere/tool-call": Said(
        "", ("get_weather_5ynth7paris1", "get_weather", ILE), "TOOL_CALL", (541, 33),
        reasoning="I will look up the weather in Paris.",
    ),
    "cohere/stop": Said("one two three ", None, "STOP_SEQUENCE", (490, 7)),
    "cohere/error": Said(error="tool_choice is REQUIRED"),  # a message and an id, which no stream has
    "cohere/parallel-tools": Said(
        "", ("get_weather_5ynth7paris2", "get_weather", ILE), "TOOL_CALL", (556, 60),
        second=("get_weather_5ynth7tokyo2", "get_weather", TOKYO), reasoning="I will look up both cities.",
    ),
    "cohere/reasoning": Said(
        "The ride takes 3 hours 25 minutes.", None, "COMPLETE", (512, 28), reasoning="From 9:40 to 12:40 is three hours"
    ),
    "cohere/structured": Said(QUIZ, None, "COMPLETE", (499, 15)),
    "cohere/logprobs": Said("Red, teal, grey.", None, "COMPLETE", (485, 8)),
    "cohere/multi-turn": Said("It is sunny in Paris, at 21 degrees.", None, "COMPLETE", (573, 13)),
}  # fmt: skip

# The scripted model says the same everywhere; what differs is the reason, the counts, and how it fails.
SCRIPT = {
    "text": Said(SCRIPTED + "scripted model."),
    "tool-call": Said("", (None, "get_weather", PARIS)),
    "stop": Said(SCRIPTED),
    "error": Said("tick tock "),
    "parallel-tools": Said("", (None, "get_weather", PARIS), second=(None, "get_weather", TOKYO)),
    "reasoning": Said("Short reply it is.", reasoning="The user wants a short reply.\n"),
    "structured": Said(QUIZ),
    "logprobs": Said("Hello there! This "),
    "multi-turn": Said("The weather there is sunny, about 21 degrees."),
}
OVERFLOW = "Context size has been exceeded."
INVALID = "2 validation errors for ChatCompletionStreamResponse"


def _scripted(provider: str, **shapes: Said) -> dict[str, Said]:
    """Entries of one provider: for each shape what its script does not say."""
    entries = {}
    for name, own in shapes.items():
        shape = name.replace("_", "-")
        members = {key: value for key, value in own._asdict().items() if value != Said._field_defaults[key]}
        entries[f"{provider}/{shape}"] = SCRIPT[shape]._replace(**members)
    return entries


def _ended(finish: str | None, *tokens: int) -> Said:
    return Said(finish=finish, tokens=(tokens[0], tokens[1]) if tokens else None)


SAID |= {
    **_scripted(
        "vllm-responses", text=_ended("completed", 7, 53), tool_call=_ended("completed", 258, 28),
        parallel_tools=_ended("completed", 260, 60), structured=_ended("completed", 13, 12),
        multi_turn=_ended("completed", 329, 15),
    ),
    "vllm-responses/error": Said(error="This model's maximum context length is 2048 tokens."),
    "vllm-responses/reasoning": Said(
        "\n\nShort reply it is.", None, "completed", (14, 19), reasoning="\nThe user wants a short reply.\n"
    ),
    **_scripted(
        "litellm-responses", text=_ended("completed", 7, 53), tool_call=_ended("completed", 201, 28),
        parallel_tools=_ended("completed", 203, 60), reasoning=_ended("completed", 14, 19),
        structured=_ended("completed", 13, 12), multi_turn=_ended("completed", 258, 15),
    ),
    "litellm-responses/error": Said(error="litellm.ContextWindowExceededError: litellm.BadRequestError"),
    **_scripted(
        "litellm-bridge-responses", text=_ended("completed", 7, 53), tool_call=_ended("completed", 201, 28),
        parallel_tools=_ended("completed", 203, 60), reasoning=_ended("completed", 14, 19),
        structured=_ended("completed", 13, 12), multi_turn=_ended("completed", 258, 15),
        error=Said(finish="failed", error="litellm.APIConnectionError: APIConnectionError: OpenAIException"),
    ),
    **_scripted(
        "dynamo-responses", text=_ended("completed", 7, 53), tool_call=_ended("completed", 258, 28),
        structured=_ended("completed", 13, 12), multi_turn=_ended("completed", 329, 15),
        error=Said(finish="failed", error="Internal server error"),
        parallel_tools=Said("\n", finish="completed", tokens=(260, 60)),  # what stands between the two calls
    ),
    # No reasoning parser: it stays in the text.
    "dynamo-responses/reasoning": Said("<think>\nThe user wants a short reply.\n</think>", None, "completed", (14, 19)),
    **_scripted(
        "vllm-anthropic", text=_ended("end_turn", 7, 53), tool_call=_ended("tool_use", 258, 28),
        stop=_ended("stop_sequence", 7, 12), parallel_tools=_ended("tool_use", 260, 60),
        multi_turn=_ended("end_turn", 329, 15), error=Said(tokens=(13, 0), error=INVALID),
        reasoning=Said("\n\nShort reply it is.", None, "end_turn", (14, 19), reasoning="\nThe user wants a short"),
    ),
    # The prompts lay in the upstream's cache: only what is new counts as input.
    **_scripted(
        "litellm-anthropic", text=_ended("end_turn", 6, 53), tool_call=_ended("tool_use", 12, 28),
        stop=_ended("end_turn", 1, 12), parallel_tools=_ended("tool_use", 14, 60), reasoning=_ended("end_turn", 1, 19),
        multi_turn=_ended("end_turn", 58, 15), error=Said(tokens=(0, 0), error="litellm.InternalServerError"),
    ),
    **_scripted(
        "dynamo-anthropic", text=_ended("end_turn", 7, 53), tool_call=_ended("tool_use", 258, 28),
        stop=_ended("stop_sequence", 7, 12), multi_turn=_ended("end_turn", 328, 15),
        parallel_tools=Said("\n", finish="tool_use", tokens=(260, 60)),
        error=Said(tokens=(13, 5), error="Internal server error"),
        reasoning=Said("\n\nShort reply it is.", None, "end_turn", (14, 19), reasoning="\nThe user wants a short"),
    ),
    **_scripted(
        "vllm-completions", text=_ended("stop", 7, 53), stop=_ended("stop"), logprobs=_ended("length"),
    ),
    "vllm-completions/error": Said(error="Either prompt or prompt_embeds must be provided"),
    # Usage where none was asked for, and all of it 0.
    **_scripted(
        "litellm-completions", text=_ended("stop", 7, 53), stop=_ended("stop", 0, 0), logprobs=_ended("length", 0, 0),
        error=Said(tokens=(0, 0), error="litellm.InternalServerError: InternalServerError: OpenAIException"),
    ),
    **_scripted(
        "dynamo-completions", text=_ended("stop", 7, 53), stop=_ended("stop"), logprobs=_ended("length"),
        error=Said(error="Internal server error"),
    ),
    **_scripted(
        "llamacpp", text=_ended("stop", 37, 53), tool_call=_ended("tool_calls", 300, 28), stop=_ended("stop", 45, 12),
        error=Said(error=OVERFLOW), parallel_tools=_ended("tool_calls", 268, 60), reasoning=_ended("stop", 14, 19),
        structured=_ended("stop", 13, 12), logprobs=_ended("stop", 24, 53), multi_turn=_ended("stop", 430, 15),
    ),
    **_scripted(
        "llamacpp-responses", text=_ended("completed", 37, 53), tool_call=_ended("completed", 300, 28),
        error=Said(error=OVERFLOW), parallel_tools=_ended("completed", 268, 60), reasoning=_ended("completed", 14, 19),
        structured=_ended("completed", 13, 12), multi_turn=_ended("completed", 430, 15),
    ),
    # The stop sequence was hit, but the reason is the ordinary one.
    **_scripted(
        "llamacpp-anthropic", text=_ended("end_turn", 37, 53), tool_call=_ended("tool_use", 300, 28),
        stop=_ended("end_turn", 45, 12), error=Said(tokens=(13, 0), error=OVERFLOW),
        parallel_tools=_ended("tool_use", 268, 60), reasoning=_ended("end_turn", 14, 19),
        structured=_ended("end_turn", 13, 12), multi_turn=_ended("end_turn", 430, 15),
    ),
    **_scripted(
        "llamacpp-completions", text=_ended("stop", 7, 53), stop=_ended("stop", 7, 12), error=Said(error=OVERFLOW),
        logprobs=_ended("stop", 7, 53),
    ),
}  # fmt: skip
