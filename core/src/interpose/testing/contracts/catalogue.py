"""All checks of a middleware's contract, in the order in which they are run."""

from __future__ import annotations

from typing import Final

from interpose.testing.contracts import (
    call_rules,
    capability_rules,
    concurrency_rules,
    control_rules,
    ending_rules,
    environment_rules,
    failure_rules,
    form_rules,
    hiding_rules,
    instance_rules,
    isolation_rules,
    lane_rules,
    loop_rules,
    memory_rules,
    mutation_rules,
    passing_rules,
    payload_rules,
    point_rules,
    resume_rules,
    retraction_rules,
    secret_rules,
    settings_rules,
    stream_rules,
    write_rules,
)
from interpose.testing.contracts.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *stream_rules.RULES,
    *lane_rules.RULES,
    *memory_rules.RULES,
    *retraction_rules.RULES,
    *hiding_rules.RULES,
    *mutation_rules.RULES,
    *form_rules.RULES,
    *passing_rules.RULES,
    *isolation_rules.RULES,
    *concurrency_rules.RULES,
    *ending_rules.RULES,
    *call_rules.RULES,
    *control_rules.RULES,
    *failure_rules.RULES,
    *payload_rules.RULES,
    *loop_rules.RULES,
    *resume_rules.RULES,
    *write_rules.RULES,
    *settings_rules.RULES,
    *environment_rules.RULES,
    *secret_rules.RULES,
    *capability_rules.RULES,
    *point_rules.RULES,
    *instance_rules.RULES,
)
