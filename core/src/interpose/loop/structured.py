"""Structured output: a schema for the model, deltas for the consumer, a checked value for both."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from ag_ui.core import BaseEvent, CustomEvent, EventType, UserMessage
from pydantic import ValidationError

from interpose.agui.decoding import from_json
from interpose.loop.calls import only
from interpose.loop.conversation import Conversation, request_of
from interpose.loop.modelcall import Answer
from interpose.loop.streams import owned
from interpose.loop_errors import OutputError
from interpose.model import Ability, abilities_of
from interpose.services import Wanted

OUTPUT_START: Final = "structured-output.start"
"""CUSTOM event before the text of a structured output. Value: ``{"name": ...}``."""
OUTPUT_COMPLETE: Final = "structured-output.complete"
"""CUSTOM event with a valid structured output. Value: ``{"name": ..., "object": ...}``."""
PURPOSE: Final = "structured-output"


class StructuredOutput:
    """Gets the output that the caller wants out of a conversation.

    A model that takes a schema and tools in one request gives it as the answer of the loop;
    otherwise a call of its own follows the loop. ``value``: JSON, once it is there.
    """

    def __init__(self, conversation: Conversation, wanted: Wanted) -> None:
        self._conversation = conversation
        self._wanted = wanted
        self.value: Any = None
        self._said: Answer | None = None
        self.is_native = Ability.OUTPUT_WITH_TOOLS in abilities_of(
            conversation.model(conversation.view().model or "")
        )
        if self.is_native:
            conversation.want(wanted.schema)
            conversation.announce = self.announced

    async def announced(self, events: AsyncIterator[BaseEvent]) -> AsyncIterator[BaseEvent]:
        """Yield the events of a model call with the start announced before its text."""
        told = False
        async with owned(events) as stream:
            async for event in stream:
                if event.type is EventType.TEXT_MESSAGE_START and not told:
                    told = True
                    yield self._event(OUTPUT_START, {"name": self._wanted.name})
                yield event

    async def play(self) -> AsyncIterator[BaseEvent]:
        """Yield what it takes after the loop. Raises :class:`OutputError`."""
        conversation = self._conversation
        answer = conversation.answer
        problem: OutputError | None = None
        if self.is_native and answer is not None:
            problem = self._read(answer.text)
            if problem is None:
                async for event in self._completed():
                    yield event
                return
        attempts = conversation.parts.repairs + (0 if self.is_native else 1)
        for _ in range(attempts):
            limit = conversation.spending.over(conversation.parts.budget)
            if limit is not None:
                raise problem or OutputError(
                    "structured-output-missing-result",
                    f"There is no structured output: {limit} is used up.",
                )
            async with owned(self._call(problem)) as stream:
                async for event in stream:
                    conversation.transcript.apply(event)
                    yield event
            problem = self._read("" if self._said is None else self._said.text)
            if problem is None:
                async for event in self._completed():
                    yield event
                return
        raise problem or OutputError("structured-output-missing-result", "There is no answer.")

    async def _call(self, problem: OutputError | None) -> AsyncIterator[BaseEvent]:
        """Make the separate call: no tools, a schema, and what was wrong with the last answer."""
        conversation = self._conversation
        hooks = conversation.hooks
        hooks.enter("structured_output")
        base = replace(conversation.view(), tools=(), output_schema=self._wanted.schema)
        if problem is not None:
            # For this call alone: the history never sees it.
            said = UserMessage(
                id=str(uuid4()),
                content=f"{problem.message} Answer again, with the JSON object alone.",
            )
            base = replace(base, messages=(*(base.messages or ()), said))
        shaped = (await hooks.configure_output(base)).view
        view = (await hooks.configure(replace(shaped, tools=()))).view
        request = request_of(replace(view, tools=()))
        before, answer = len(conversation.usage), conversation.answer
        message_id = str(uuid4())
        hooks.position.message_id = message_id
        async with owned(self.announced(conversation.call(request, message_id))) as stream:
            async for event in stream:
                yield event
        # What the loop itself came to is told apart.
        conversation.side_usage += conversation.usage[before:]
        del conversation.usage[before:]
        self._said, conversation.answer = conversation.answer, answer

    def _read(self, text: str) -> OutputError | None:
        """Keep the value that a text gives, or say what is wrong with it."""
        found = text.strip()
        if found.startswith("```"):
            found = found.strip("`").removeprefix("json").strip()
        if not found:
            return OutputError(
                "structured-output-missing-result", "The model gave no structured output."
            )
        try:
            written = from_json(found)
            json.dumps(written, allow_nan=False)  # 1e999 is a number in JSON, and none elsewhere
        except ValueError:
            return OutputError(
                "structured-output-parse-failed", "The structured output is no JSON."
            )
        try:
            self.value = self._wanted.plain(self._wanted.read(found), written)
        except ValidationError as error:
            first = [
                f"{'.'.join(str(part) for part in each['loc']) or 'it'}: {each['msg']}"
                for each in error.errors(include_url=False, include_input=False)[:5]
            ]
            return OutputError(
                "structured-output-validation-failed",
                f"The structured output does not fit {self._wanted.name}: {'; '.join(first)}.",
            )
        return None

    async def _completed(self) -> AsyncIterator[BaseEvent]:
        """Yield the event of the output; what the layers inside the cut make of it is the value."""
        found = {"name": self._wanted.name, "object": self.value}
        complete = only(self._event(OUTPUT_COMPLETE, found))
        async with owned(self._conversation.ctx.rewrite(complete)) as stream:
            async for event in stream:
                if isinstance(event, CustomEvent) and event.name == OUTPUT_COMPLETE:
                    self.value = _object(event.value)
                yield event

    def _event(self, name: str, value: Any) -> CustomEvent:
        return CustomEvent(name=name, value=value)


def _object(value: Any) -> Any:
    return value.get("object") if isinstance(value, dict) else None
