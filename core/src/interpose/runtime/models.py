"""Models for a layer's own calls: nothing of them reaches the consumer or the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from ag_ui.core import Message, UserMessage

from interpose.agui import Expander, Transcript
from interpose.errors import UsageError
from interpose.loop.modelcall import checked
from interpose.model import FinishReason, ModelAnswer, ModelContext, ModelFinished
from interpose.payloads import ModelRequest
from interpose.runtime.closing import close_all

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord


class Handle:
    """One model, as ``ctx.model(id)`` gives it to a layer."""

    __slots__ = ("_layer", "_model", "_record")

    def __init__(self, record: RunRecord, layer: str, model: str) -> None:
        record.program.check_model(model, f"layer {layer!r}")
        self._record = record
        self._layer = layer
        self._model = model

    async def complete(
        self, asked: ModelRequest | Sequence[Message] | str, /, *, purpose: str = "middleware"
    ) -> ModelAnswer:
        """Call the model, and return its whole answer."""
        record = self._record
        request = self._request(asked)
        message = str(uuid4())
        ctx = ModelContext(record, self._model, message)
        stream = record.model_of(self._model).stream(request, ctx)
        expander, transcript = Expander(), Transcript()
        reason: FinishReason | None = None
        events = checked(stream, self._model)
        try:
            async for event in events:
                if isinstance(event, ModelFinished):
                    reason = event.finish_reason
                    record.side_usage.setdefault(purpose, []).extend(event.usage)
                    record.loop.spend(event.usage)
                    usage = event.usage
                    break
                for part in expander.push(event):
                    transcript.apply(part)
            else:
                usage = ()
        finally:
            await close_all(record, (events, "a model call"), (stream, f"model {self._model}"))
        for part in expander.close():
            transcript.apply(part)
        return ModelAnswer(transcript.text, transcript.messages, reason, usage)

    def _request(self, asked: ModelRequest | Sequence[Message] | str) -> ModelRequest:
        if isinstance(asked, ModelRequest):
            return asked.replace(model=self._model)
        if isinstance(asked, str):
            return ModelRequest(self._model, (UserMessage(id=str(uuid4()), content=asked),))
        given: object = asked
        if not isinstance(given, Sequence):
            raise UsageError(
                f"layer {self._layer!r} called complete with a {type(asked).__name__}",
                hint="give it a text, messages of ag_ui.core, or a ModelRequest",
            )
        return ModelRequest(self._model, tuple(asked))
