"""Which texts a transform covers."""

from __future__ import annotations

import enum


class Covers(enum.Flag):
    """Which texts a :class:`TextTransform` covers.

    Left alone under every cover: ids, names of tools, steps, authors and activities, metadata
    (but that of interrupts, and the error of a tool's result), encrypted values, media, the
    keys of JSON values (of a tool call's arguments the keys are covered), tools,
    ``forwardedProps`` and ``resume`` of the input.
    """

    TEXT = enum.auto()
    """TEXT_MESSAGE_*, and the description in SUBAGENT_STARTED."""
    REASONING = enum.auto()
    """REASONING_MESSAGE_*."""
    TOOL_ARGS = enum.auto()
    """TOOL_CALL_ARGS, each string of the JSON by itself. Tools still run with the originals."""
    TOOL_RESULTS = enum.auto()
    """TOOL_CALL_RESULT; one that is a JSON object or array, string by string."""
    MESSAGES = enum.auto()
    """MESSAGES_SNAPSHOT: contents, tool calls' arguments and tool errors of every message."""
    STATE = enum.auto()
    """STATE_SNAPSHOT, and the values in STATE_DELTA; with INPUT, the input's state."""
    ACTIVITY = enum.auto()
    """ACTIVITY_SNAPSHOT, and the values in ACTIVITY_DELTA."""
    CUSTOM = enum.auto()
    """The value of CUSTOM."""
    INPUT = enum.auto()
    """Messages and context of the input, and of its copy in RUN_STARTED."""
    RESULT = enum.auto()
    """The result of RUN_FINISHED and SUBAGENT_FINISHED, and message and metadata of interrupts."""
    ERROR = enum.auto()
    """The message of RUN_ERROR and SUBAGENT_ERROR."""
    ALL = (
        TEXT
        | REASONING
        | TOOL_ARGS
        | TOOL_RESULTS
        | MESSAGES
        | STATE
        | ACTIVITY
        | CUSTOM
        | INPUT
        | RESULT
        | ERROR
    )
    """All of these."""
