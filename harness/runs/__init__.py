"""What a user asks for: each module is one thing, takes plain values and returns a report.

Whoever asks for a run may name a dialect that a plug-in brings.
"""

from __future__ import annotations

from harness import dialects as _dialects
from harness.runs import dialects as _finder

_dialects.finder = _finder
