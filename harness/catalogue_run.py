"""Rules that no stream can break by itself: limits a provider's entry sets, and an answer asked for a second time.

They are judged by `harness gate` alone, keys in files by `harness lint --secrets`. `{candidate}` is what was measured;
`{baseline}` the limit, or what the answer that was not streamed says.
"""

from __future__ import annotations

from harness.rule import F, N, Rule

TIMING = [
    Rule("timing.first-byte", N, "run", "the first byte came after {candidate}, later than the {baseline} allowed: a "
         "client with a timeout of that length gives up and asks again", "find out what queues or buffers, or raise "
         "`thresholds.first_byte` and the client's timeout"),
    Rule("timing.first-event", N, "run", "the first event came after {candidate}, later than the {baseline} allowed: a "
         "timeout tuned to the old latency fires before the answer", "find out what queues or buffers, or raise "
         "`thresholds.first_event` and the client's timeout"),
    Rule("timing.first-content", N, "run", "the first words came after {candidate}, later than the {baseline} allowed: "
         "users stare at nothing", "shorten the prompt or the thinking, or raise `thresholds.first_content`"),
    Rule("timing.gap", N, "run", "no event came for {candidate}, longer than the {baseline} allowed: the answer "
         "stutters, and an idle timeout fires in the middle of it", "find out what buffers, or raise "
         "`thresholds.gap` and the client's idle timeout"),
    Rule("timing.total", N, "run", "the whole answer took {candidate}, longer than the {baseline} allowed: a gateway's "
         "limit on the request cuts it", "limit the answer's length, or raise `thresholds.total`"),
]  # fmt: skip

PARITY = [
    Rule("parity.text", N, "run", "streamed, the text is {candidate}; asked without streaming, the same request gives "
         "{baseline}: words are lost or changed on the way", "compare both answers; where the model is not deterministic, "
         "set temperature and seed under `request:`"),
    Rule("parity.calls", F, "run", "streamed, the calls are {candidate}; asked without streaming, the same request gives "
         "{baseline}: the agent runs something else, or nothing", "check the server's tool parser for streams, or do not "
         "stream requests with tools"),
    Rule("parity.finish", N, "run", "streamed, the finish reason is {candidate}; asked without streaming, the same request "
         "gives {baseline}: a branch on the reason depends on streaming", "map both reasons in the client"),
    Rule("parity.usage", N, "run", "streamed, the token counts are {candidate}; asked without streaming, the same request "
         "gives {baseline}: the cost ledger depends on streaming", "count tokens locally, or ask why they differ"),
]  # fmt: skip

SECRETS = [
    Rule("secrets.key-like", F, "run", "the file holds {detail}: whoever can read the repository can use it", "revoke the "
         "key, mask it with `harness lint --secrets --mask FILE`, and rewrite the history if it was committed"),
]  # fmt: skip
