"""What a finding breaks: the clients proven on the quirk corpus to fail under its rule (DESIGN, "Evidence")."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.adapters import SDKS
from harness.clients.evidence import breaks_of
from harness.findings import Finding


def with_breaks(findings: Iterable[Finding], dialect: str) -> list[Finding]:
    """The findings, each with the names of the clients that fail under its rule and read the stream's dialect."""
    return [
        msgspec.structs.replace(
            finding, breaks=[name for name in breaks_of(finding.rule, dialect) if _reads(name, dialect)]
        )
        for finding in findings
    ]  # fmt: skip


def _reads(name: str, dialect: str) -> bool:
    """SDKs are named with their version, as `openai-python 1.0`; of models `breaks_of` knows their dialects."""
    sdk = SDKS.get(name.partition(" ")[0])
    return sdk is None or dialect in sdk.dialects
