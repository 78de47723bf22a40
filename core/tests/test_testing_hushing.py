"""While a contract plays, the sinks of whoever runs the tests hear nothing, and then all again."""

from __future__ import annotations

import pytest
from loguru import logger

from interpose import Middleware, RunContext
from interpose.testing import contract
from interpose.testing.contracts.hushing import hushed


class Talkative(Middleware):
    def setup(self, ctx: RunContext) -> None:
        ctx.log.error("I talk")


def test_a_contract_logs_nothing_where_the_tests_log() -> None:
    heard: list[str] = []
    sink = logger.add(lambda line: heard.append(str(line)), level="DEBUG", format="{message}")
    try:
        assert contract(Talkative).run()
        assert heard == []
        logger.error("after")
        assert heard == ["after\n"]
    finally:
        logger.remove(sink)


def test_sinks_added_inside_hear_and_all_are_back_afterwards() -> None:
    outer: list[str] = []
    inner: list[str] = []
    first = logger.add(lambda line: outer.append(str(line)), level="INFO", format="{message}")
    second = 0

    def fail() -> None:
        nonlocal second
        with hushed():
            second = logger.add(
                lambda line: inner.append(str(line)), level="DEBUG", format="{message}"
            )
            logger.debug("quiet")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    logger.info("loud")
    logger.remove(first)
    logger.remove(second)
    assert (outer, inner) == (["loud\n"], ["quiet\n", "loud\n"])
