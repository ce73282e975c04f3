"""Record the fixtures of the llama.cpp providers in providers.yaml from the real server, as `harness record` does.

    python tools/record_llamacpp.py
    python tools/record_llamacpp.py llamacpp-anthropic --shape error --replace

Needs the extra `llamacpp`. The model is made on the spot. Every shape gets a server of its own, with one context of
512 tokens for all requests: two endless answers overflow it, and no earlier prompt lies in its cache, which would show
in the counters. Ids and times differ in every recording; a take whose structure differs needs --replace. Exit 3 if a
shape could not be recorded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import msgspec

from harness.bodies import shapes_offered
from harness.config import Project, load_project
from harness.errors import Exit
from harness.partial import sidecar_text
from harness.recording import Sidecar
from harness.runs.recording import Recorded, record_provider

TOOLS = Path(__file__).resolve().parent
SERVER = "llama.cpp (xllamacpp)"
FLAGS = ("--ctx", "512", "--unified-kv")


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the llama.cpp fixtures.")
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help="default: all that are named llamacpp*")
    parser.add_argument("--shape", action="append", help="only this shape; repeatable")
    parser.add_argument("--replace", action="store_true", help="replace a fixture even if its structure differs")
    options = parser.parse_args()
    project = load_project(TOOLS.parent / "providers.yaml", TOOLS.parent)
    results = record(project, options.providers, options.shape or (), replace=options.replace)
    for result in results:
        print(f"{result.provider}/{result.shape}: {result.path if result.good else f'not recorded: {result.reason}'}")
    sys.exit(0 if all(result.good for result in results) else Exit.NOT_MEASURED)


def record(
    project: Project, providers: Sequence[str] = (), shapes: Sequence[str] = (), *, replace: bool = False
) -> list[Recorded]:  # fmt: skip
    """Record the shapes that have a request file and are not skipped; say in each sidecar which server it was."""
    results = []
    with tempfile.TemporaryDirectory(prefix="tiny-model-") as folder:
        model = Path(folder) / "tiny.gguf"
        subprocess.run([sys.executable, str(TOOLS / "make_tiny_model.py"), "gguf", str(model)], check=True)
        for name in providers or [name for name in project.providers if name.startswith("llamacpp")]:
            provider = project.provider(name)
            offered = shapes or shapes_offered(project, provider.dialect)
            for shape in (shape for shape in offered if provider.shape(shape).skip is None):
                with serving(model) as url:
                    results += record_provider(
                        project, name, shapes=[shape], replace=replace, environ={"LLAMACPP_URL": f"{url}/v1"}, say=tell
                    )
    for result in results:
        if result.good and result.path is not None:
            name_server(Path(result.path).with_suffix(".json"))
    return results


def tell(text: str) -> None:
    print(text, file=sys.stderr)


def name_server(path: Path) -> None:
    """Write server and version into the provenance of a sidecar; the response itself says neither in full."""
    sidecar = msgspec.json.decode(path.read_bytes(), type=Sidecar)
    if sidecar.provenance is not None:
        sidecar.provenance.server, sidecar.provenance.version = SERVER, version("xllamacpp")
    path.write_text(sidecar_text(sidecar, end=sidecar.end, digest=sidecar.sha256), encoding="utf-8")


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """A server on a free port of this host; yields its url, without a path. It ends with the block, or with us."""
    command = [sys.executable, str(TOOLS / "serve_llamacpp.py"), str(model), "--port", "0", "--watch-stdin", *FLAGS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            word, _, url = server.stdout.readline().partition(" ")
            if word != "READY":
                raise RuntimeError(f"the server did not start: {' '.join(command)}")
            yield url.strip()
        finally:
            server.stdin.close()
            server.wait(timeout=30)


if __name__ == "__main__":
    main()
