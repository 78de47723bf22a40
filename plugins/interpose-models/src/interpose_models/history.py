"""The conversation: from AG-UI's messages to those of ``pydantic_ai``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ag_ui.core import (
    AssistantMessage,
    DeveloperMessage,
    Message,
    ReasoningMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from interpose import InvalidModelRequest
from interpose_models.content import Note, contents
from interpose_models.sealed import unseal

PROVIDER_EXECUTED: Final = "interpose:provider-executed"
"""The key of a call's metadata that says: the provider has run it, nobody else should."""

REASONING: Final = "-reasoning-"
"""What stands in the id of reasoning between the id of its answer and a number."""


def history(
    messages: Iterable[Message], system_prompts: Sequence[str], note: Note
) -> list[ModelMessage]:
    """Return the conversation, system prompts first.

    Not sent: activities, calls that the provider ran itself, and reasoning of which the provider
    holds nothing.
    """
    build = _History(note)
    for prompt in system_prompts:
        build.ask(SystemPromptPart(content=prompt))
    for message in messages:
        build.add(message)
    return build.messages


class _History:
    """Requests and responses in turn, as providers want them."""

    def __init__(self, note: Note) -> None:
        self.messages: list[ModelMessage] = []
        self._note = note
        self._names: dict[str, str] = {}
        self._responses: dict[str, ModelResponse] = {}
        self._elsewhere: set[str] = set()

    def add(self, message: Message) -> None:
        if isinstance(message, SystemMessage | DeveloperMessage):
            self.ask(SystemPromptPart(content=message.content))
        elif isinstance(message, UserMessage):
            self._user(message)
        elif isinstance(message, AssistantMessage):
            self._assistant(message)
        elif isinstance(message, ReasoningMessage):
            self._reasoning(message)
        elif isinstance(message, ToolMessage):
            self._tool(message)

    def ask(self, part: ModelRequestPart) -> None:
        """Add to what the model is told."""
        if self.messages and isinstance(last := self.messages[-1], ModelRequest):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(ModelRequest(parts=[part]))

    def _answer(self, part: ModelResponsePart) -> ModelResponse:
        """Add to what the model said."""
        if self.messages and isinstance(last := self.messages[-1], ModelResponse):
            last.parts = [*last.parts, part]
            return last
        response = ModelResponse(parts=[part])
        self.messages.append(response)
        return response

    def _user(self, message: UserMessage) -> None:
        if isinstance(message.content, str):
            self.ask(UserPromptPart(content=message.content))
        elif found := contents(message.content, self._note):
            self.ask(UserPromptPart(content=found))

    def _assistant(self, message: AssistantMessage) -> None:
        if message.content:
            self._responses[message.id] = self._answer(TextPart(content=message.content))
        for call in message.tool_calls or ():
            if (call.metadata or {}).get(PROVIDER_EXECUTED):
                self._elsewhere.add(call.id)
                continue
            self._names[call.id] = call.function.name
            sealed = unseal(call.encrypted_value)
            part = ToolCallPart(
                tool_name=call.function.name,
                args=call.function.arguments,
                tool_call_id=call.id,
                provider_name=sealed.get("provider_name"),
                provider_details=sealed.get("provider_details"),
            )
            self._responses[message.id] = self._answer(part)

    def _reasoning(self, message: ReasoningMessage) -> None:
        sealed = unseal(message.encrypted_value)
        system = sealed.pop("canonical_system", None)
        if not sealed:
            return
        part = ThinkingPart(content=message.content, **sealed)
        response = self._responses.get(message.id.rpartition(REASONING)[0])
        if response is None:
            response = self._answer(part)
        else:
            _insert_before_calls(response, part)
        if system is not None:
            # Which keys verify a signature: one provider's name may stand for two systems.
            response.provider_name = sealed.get("provider_name")
            response.canonical_system = system

    def _tool(self, message: ToolMessage) -> None:
        if message.tool_call_id in self._elsewhere:
            return
        name = self._names.get(message.tool_call_id)
        if name is None:
            raise InvalidModelRequest(
                f"The tool message {message.id!r} answers the call {message.tool_call_id!r}, "
                "which no message before it makes."
            )
        failed = message.error is not None
        content: Any = message.content
        if not isinstance(content, str):
            content = contents(content, self._note)
        self.ask(
            ToolReturnPart(
                tool_name=name,
                content=content or (message.error or ""),
                tool_call_id=message.tool_call_id,
                outcome="failed" if failed else "success",
            )
        )


def _insert_before_calls(response: ModelResponse, part: ThinkingPart) -> None:
    """Put reasoning that came after the answer's first text where its call can follow it.

    In AG-UI's order it comes after the whole answer, and even after the results of its calls.
    """
    kinds = [isinstance(each, ToolCallPart) for each in response.parts]
    at = kinds.index(True) if True in kinds else len(kinds)
    response.parts = [*response.parts[:at], part, *response.parts[at:]]
