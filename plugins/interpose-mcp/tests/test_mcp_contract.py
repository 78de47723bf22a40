"""Both middlewares are good neighbours in runs that they know nothing about."""

from __future__ import annotations

import pytest

from interpose.testing import Check, contract
from interpose_mcp import McpApps, McpTools

SETTINGS = {"servers": {"shop": {"python": "mcp_shop:server"}}}


@pytest.mark.parametrize("check", contract(McpTools, settings=SETTINGS), ids=str)
def test_the_contract_of_tools(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", contract(McpApps, settings=SETTINGS), ids=str)
def test_the_contract_of_apps(check: Check) -> None:
    check()
