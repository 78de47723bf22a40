// TanStack AI: onChunk of middlewares of chat().
//
// events {layers, kind: "chunk", events}: one run whose adapter streams that many pieces of text.

import { chat } from "@tanstack/ai";

import { serve } from "./serving.mjs";

const adapterOf = (events) => ({
  kind: "text",
  name: "scripted",
  model: "scripted",
  async *chatStream({ threadId = "t", runId = "r" }) {
    const known = { model: "scripted", timestamp: 0 };
    yield { type: "RUN_STARTED", threadId, runId, ...known };
    yield { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant", ...known };
    for (let number = 0; number < events; number++)
      yield { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "x", ...known };
    yield { type: "TEXT_MESSAGE_END", messageId: "m", ...known };
    yield { type: "RUN_FINISHED", threadId, runId, finishReason: "stop", ...known };
  },
});

const layer = () => ({ onChunk: () => undefined });

const events =
  ({ layers, events }) =>
  async () => {
    const stream = chat({
      adapter: adapterOf(events),
      messages: [{ role: "user", content: "Look." }],
      middleware: Array.from({ length: layers }, layer),
    });
    let seen = 0;
    for await (const chunk of stream) seen += chunk.type === "TEXT_MESSAGE_CONTENT";
    return seen;
  };

await serve({ events }, "@tanstack/ai");
