"""What one run has told about its tool calls so far: which ids are hidden, and why."""

from __future__ import annotations

from collections.abc import Iterable

from ag_ui.core import AssistantMessage, Message, ToolMessage

from interpose_tool_filter.settings import ToolFilterSettings


class Calls:
    """The tool calls of one run, by id. It forgets nothing before the run ends.

    A call's tool is told by its TOOL_CALL_START, or by an assistant message of the history. The
    stream wins over the history: providers reuse ids, and the call that is running is the newest.
    """

    __slots__ = ("_hidden_results", "_past", "_rule", "_started")

    def __init__(self, rule: ToolFilterSettings) -> None:
        self._rule = rule
        self._started: dict[str, bool] = {}
        self._past: dict[str, bool] = {}
        self._hidden_results: set[str] = set()

    def start(self, call_id: str, name: str) -> bool:
        """Note that a call of the tool ``name`` starts; return whether it is hidden."""
        hidden = self._started[call_id] = self._rule.hides(name)
        return hidden

    def hidden(self, call_id: str) -> bool:
        """Tell whether the call is hidden."""
        if call_id in self._started:
            return self._started[call_id]
        if call_id in self._past:
            return self._past[call_id]
        return self._rule.hides(None)

    def result(self, call_id: str, message_id: str) -> bool:
        """Note that the tool message ``message_id`` answers the call; return whether it is hidden.

        The message's id is noted, because an encrypted value may name the message later.
        """
        hidden = self.hidden(call_id)
        self._note_result(message_id, hidden=hidden)
        return hidden

    def hidden_result(self, message_id: str) -> bool:
        """Tell whether the message is the result of a hidden call."""
        return message_id in self._hidden_results

    def shown(self, messages: list[Message]) -> list[Message]:
        """Return the messages without hidden calls and their results, and learn their tools.

        The same list when there is nothing to hide. An assistant message that only made hidden
        calls goes with them; one that also said something stays. No message is changed in place.
        """
        self._learn(messages)
        said: dict[str, bool] = {}
        kept: list[Message] = []
        changed = False
        for message in messages:
            shown = self._shown(message, said)
            if shown is not None:
                kept.append(shown)
            changed = changed or shown is not message
        return kept if changed else messages

    def _learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message, AssistantMessage):
                for call in message.tool_calls or ():
                    self._past[call.id] = self._rule.hides(call.function.name)

    def _shown(self, message: Message, said: dict[str, bool]) -> Message | None:
        """Return what is left of one message; ``said`` holds the calls of those before it.

        What the list itself says of an id comes first: in it, an id that was used twice means
        the call made last before the result.
        """
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            hidden = said[call_id] if call_id in said else self.hidden(call_id)
            self._note_result(message.id, hidden=hidden)
            return None if hidden else message
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            return message
        calls = []
        for call in message.tool_calls:
            said[call.id] = self._rule.hides(call.function.name)
            if not said[call.id]:
                calls.append(call)
        if len(calls) == len(message.tool_calls):
            return message
        if not calls and not message.content:
            return None
        return message.model_copy(update={"tool_calls": calls or None})

    def _note_result(self, message_id: str, *, hidden: bool) -> None:
        if hidden:
            self._hidden_results.add(message_id)
        else:
            self._hidden_results.discard(message_id)
