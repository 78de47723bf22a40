# mypy: disable-error-code="import-not-found, misc"
"""LangChain: ``PIIMiddleware`` on the text of a model that streams, read by events of version 3.

``redact`` (``pieces``: JSON, ``kinds``: what is looked for, with commas between, or nothing): a run
whose model says these pieces. Other versions of the events, and AG-UI's adapter, stream the text as
it is.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from .serving import Clock, serve, timed


class _Scripted(BaseChatModel):
    pieces: list[str]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> _Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        said = AIMessage(content="".join(self.pieces))
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self.pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@cache
def _agent(pieces: str, kinds: str) -> Any:
    middleware = [
        PIIMiddleware(kind, strategy="redact", apply_to_input=False, apply_to_output=True)
        for kind in kinds.split(",")
        if kind
    ]
    return create_agent(_Scripted(pieces=json.loads(pieces)), tools=[], middleware=middleware)


async def _texts(pieces: str, kinds: str) -> AsyncIterator[str]:
    asked = {"messages": [{"role": "user", "content": "Speak."}]}
    run = await _agent(pieces, kinds).astream_events(asked, version="v3")
    async for message in run.messages:
        async for text in message.text:
            yield text


async def redact(*, pieces: str, kinds: str, times: int, clock: Clock) -> float:
    """Read a run to its end."""

    async def run() -> None:
        text = "".join([each async for each in _texts(pieces, kinds)])
        if kinds and ("@" in text or "[REDACTED_EMAIL]" not in text):
            raise ValueError("addresses have left")

    return await timed(run, times, clock)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # version 3 is called experimental
    serve({"redact": redact}, "langchain", "langgraph")
