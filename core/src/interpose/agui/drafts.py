"""Messages under construction: copy-on-write, and linear in the length of what is streamed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ag_ui.core import AssistantMessage, FunctionCall, Message, ToolCall


class CallDraft:
    """A tool call whose arguments may still arrive; ``carrier`` is the message that holds it."""

    __slots__ = ("arguments", "carrier", "encrypted_value", "id", "metadata", "name")

    def __init__(self, carrier: MessageDraft, id_: str, name: str) -> None:
        self.carrier = carrier
        self.id = id_
        self.name = name
        self.arguments: list[str] = []
        self.metadata: dict[str, Any] | None = None
        self.encrypted_value: str | None = None

    @classmethod
    def of(cls, carrier: MessageDraft, call: ToolCall) -> CallDraft:
        """Go on from a finished call."""
        draft = cls(carrier, call.id, call.function.name)
        draft.arguments.append(call.function.arguments)
        draft.metadata = call.metadata
        draft.encrypted_value = call.encrypted_value
        return draft

    def build(self) -> ToolCall:
        """Return the call as it is now."""
        if len(self.arguments) > 1:
            self.arguments[:] = ["".join(self.arguments)]
        return ToolCall(
            id=self.id,
            type="function",
            function=FunctionCall(
                name=self.name, arguments=self.arguments[0] if self.arguments else ""
            ),
            metadata=self.metadata,
            encrypted_value=self.encrypted_value,
        )


class MessageDraft:
    """A message that more events may change.

    ``seeded``: it came with the input, not from this run. ``position``: its place in the
    transcript, kept by it. Deltas are kept as a list of parts and
    joined when somebody reads :attr:`message`, so a long message costs one copy, not one a delta.
    """

    __slots__ = (
        "_built",
        "_make",
        "_parts",
        "_updates",
        "calls",
        "id",
        "position",
        "role",
        "seeded",
    )

    def __init__(self, message: Message, *, seeded: bool = False) -> None:
        self.seeded = seeded
        self.position = 0
        self.replace(message)

    @property
    def is_made(self) -> bool:
        """Whether the message has been made."""
        return self._built is not None

    def replace(self, message: Message) -> None:
        """Start again from another message."""
        self.id: str = message.id
        self.role: str = message.role
        self._make: Any = None
        self._built: Message | None = message
        self._parts: list[str] | None = None
        self._updates: dict[str, Any] = {}
        self.calls = [CallDraft.of(self, call) for call in _calls_of(message)]

    @property
    def message(self) -> Message:
        """The message as it is now; the same object until something changes."""
        built = self._before()
        if self._parts:
            if len(self._parts) > 1:
                self._parts[:] = ["".join(self._parts)]
            self._updates["content"] = self._parts[0]
        if self._updates:
            if self._updates.pop("tool_calls", None):
                self._updates["tool_calls"] = [call.build() for call in self.calls]
            self._built = built = built.model_copy(update=self._updates)
            self._updates = {}
            self._parts = None
        return built

    def _before(self) -> Message:
        """Return the message as it was made, or last read."""
        if self._built is None:
            made: Message = self._make()
            self._built = made
        return self._built

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata gathered so far."""
        if "metadata" in self._updates:
            pending: dict[str, Any] | None = self._updates["metadata"]
            return pending
        return None if self._built is None else self._built.metadata

    def parts(self) -> list[str]:
        """Return the texts that the content is made of, to add to.

        Content that is no text, such as parts, is replaced once something is added.
        """
        if self._parts is None:
            content = getattr(self._before(), "content", None)
            self._parts = [content] if isinstance(content, str) else []
        return self._parts

    def append(self, delta: str) -> None:
        """Add text."""
        self.parts().append(delta)

    def update(self, **fields: Any) -> None:
        """Set fields of the message."""
        self._updates.update(fields)

    def add_call(self, call: CallDraft) -> None:
        """Add a tool call at the end."""
        self.calls.append(call)
        self.changed()

    def changed(self) -> None:
        """Take note that one of the tool calls changed."""
        self._updates["tool_calls"] = True


class TextDraft(MessageDraft):
    """A message of the run's own whose text is still to come; ``make`` makes it when it is read."""

    __slots__ = ()

    def __init__(self, id_: str, role: str, make: Callable[[], Message]) -> None:
        self.seeded = False
        self.position = 0
        self.id = id_
        self.role = role
        self.calls = []
        self._make = make
        self._built = None
        self._parts = []
        self._updates = {}


def _calls_of(message: Message) -> Sequence[ToolCall]:
    # Not by getattr with a default: a model takes long to say that it has no such field.
    return (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ()
