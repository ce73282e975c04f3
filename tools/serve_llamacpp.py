"""Start the real llama.cpp HTTP server (through xllamacpp) on a port of this host.

Prints one line ``READY http://127.0.0.1:PORT`` once /health answers 200, then
serves until SIGTERM, SIGINT or, with --watch-stdin, until stdin closes.

    python serve_llamacpp.py MODEL.gguf --port 8080
    python serve_llamacpp.py MODEL.gguf --port 8080 --slots 2 --ctx 512 --unified-kv
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence


def wait_healthy(url: str, seconds: float = 30.0) -> None:
    """Poll URL/health until it answers 200; raise TimeoutError otherwise."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url + "/health", timeout=1) as r:
                if r.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)
    raise TimeoutError(f"{url} did not become healthy in {seconds} s")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, start the server, wait for a signal."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--port", type=int, default=8080, help="0: any free port")
    ap.add_argument("--alias", default="tiny", help="model name in responses")
    ap.add_argument("--ctx", type=int, default=4096, help="context size, all slots together")
    ap.add_argument("--slots", type=int, default=2, help="requests served at once")
    ap.add_argument("--unified-kv", action="store_true", help="slots share one context (can overflow mid-stream)")
    ap.add_argument("--api-key", help="require this bearer key")
    ap.add_argument("--ping", type=int, help="seconds between SSE ping comments")
    ap.add_argument("--batch", type=int, help="prompt tokens per step (small: slow prompts)")
    ap.add_argument("--watch-stdin", action="store_true", help="stop when stdin closes")
    ap.add_argument("--verbose", action="store_true", help="server log on stderr")
    a = ap.parse_args(argv)

    import xllamacpp as xlc

    p = xlc.CommonParams()
    p.model.path = a.model
    p.model_alias = {a.alias}
    p.hostnames, p.port = ["127.0.0.1"], a.port
    p.n_ctx, p.n_parallel, p.kv_unified = a.ctx, a.slots, a.unified_kv
    p.n_gpu_layers, p.fit_params, p.ui = 0, False, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.sampling.temp, p.sampling.seed = 0.0, 1
    p.endpoint_metrics = True
    if a.api_key:
        p.api_keys = [a.api_key]
    if a.ping is not None:
        p.sse_ping_interval = a.ping
    if a.batch:
        p.n_batch = p.n_ubatch = a.batch
    if not a.verbose:
        p.verbosity = 1

    stop = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: stop.set())
    server = xlc.Server(p)
    url = server.listening_address
    wait_healthy(url)
    print("READY", url, flush=True)
    if a.watch_stdin:

        def stop_with_parent() -> None:
            sys.stdin.read()
            stop.set()

        threading.Thread(target=stop_with_parent, daemon=True).start()
    while not stop.wait(0.2):
        pass
    del server  # joins the server's threads
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # no interpreter teardown: native threads are gone already
