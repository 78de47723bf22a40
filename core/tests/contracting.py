"""What a contract finds, in short."""

from __future__ import annotations

from interpose.testing import Contract


def failures(contract: Contract) -> dict[str, str]:
    """Return what each failed check says happened."""
    told = {}
    for result in contract.run().failures:
        told[result.name] = result.said.splitlines()[1].partition("happened: ")[2]
    return told
