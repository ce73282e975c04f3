"""Draw the pictures of README and docs from what the commands print: `python tools/pictures.py`.

The terminal pictures are SVG, made of text and the same on every machine; `tests/test_pictures.py` fails while one is
stale. The page is a photograph by Chromium of a report of recorded fixtures, and is left as it is where there is none.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
HARNESS = [sys.executable, "-c", "from harness.cli import main; main()"]
GATE = ["gate", "vllm", "transformers", "--recorded"]
CHECK = ["check", "client:appends-to-last", "--case", "021-interleaved-parallel-calls"]  # one case: more may be added

COLUMNS, CHARACTER, LINE, EDGE = 104, 7.8, 18, 16  # characters; pixels
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6e6e6; white-space: pre; }
.prompt { fill: #8ec07c; }
.fatal { fill: #ff6b6b; font-weight: bold; } .negotiable { fill: #ffc857; font-weight: bold; }
.good { fill: #8ec07c; font-weight: bold; } .faint { fill: #9a9a9a; }
"""
CLASSES = [
    ("prompt", re.compile(r"^\$ .*")),
    ("fatal", re.compile(r"\bFATAL\b|\bDIFFERS\b|^ *WRONG\b")),
    ("negotiable", re.compile(r"\bNEGOTIABLE\b")),
    ("good", re.compile(r"\bCONFORMS\b|: ok$")),
    ("faint", re.compile(r"^ *(baseline|candidate) at byte .*|^ *(cosmetic|breaks:) .*")),
]


def printed(*arguments: str) -> str:
    """What the command prints on stdout, in the root of this repository."""
    done = subprocess.run([*HARNESS, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    if not done.stdout:
        raise SystemExit(f"harness {' '.join(arguments)}: printed nothing; {done.stderr.strip()}")
    return done.stdout


def terminal(command: str, text: str) -> str:
    """An SVG of the command and what it printed; long lines are cut, as a terminal without wrapping would."""
    lines = [f"$ {command}", *(line[:COLUMNS] for line in text.splitlines())]
    width, height = COLUMNS * CHARACTER + 2 * EDGE, len(lines) * LINE + 2 * EDGE
    rows = [
        f'<text x="{EDGE}" y="{EDGE + 13 + number * LINE}" xml:space="preserve">{"".join(_spans(line))}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img" aria-label="{escape(command)}">',
        f"<style>{STYLE}</style>", '<rect width="100%" height="100%" rx="8" fill="#1e1e24"/>', *rows, "</svg>", "",
    ])  # fmt: skip


def _spans(line: str) -> Iterator[str]:
    """The line in pieces, those that have a class in a span of it."""
    at = 0
    found = sorted((match.span(), name) for name, pattern in CLASSES for match in pattern.finditer(line))
    for (start, end), name in found:
        if start >= at:
            yield escape(line[at:start])
            yield f'<tspan class="{name}">{escape(line[start:end])}</tspan>'
            at = end
    yield escape(line[at:])


def drawings() -> dict[str, str]:
    """The SVG of each terminal picture, by file name."""
    gate = printed(*GATE, "--shape", "text")
    shown = gate[: gate.index("\nat the cutover")].rstrip()
    check = printed(*CHECK).rstrip()
    return {
        "gate.svg": terminal("harness " + " ".join([*GATE, "--shape", "text"]), shown),
        "check.svg": terminal("harness " + " ".join(CHECK), check),
    }


def photograph(target: Path) -> None:
    """The upper part of the HTML report as PNG. Does nothing without Chromium."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        print("no Chromium: the page's picture is left as it is", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "gate.html"
        printed(*GATE, "--report", str(page))
        with Browser(Path(folder)) as browser:
            browser.open(page)
            target.write_bytes(browser.picture(whole=False))


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (PICTURES / name).write_text(text, "utf-8")
    photograph(PICTURES / "page.png")


if __name__ == "__main__":
    main()
