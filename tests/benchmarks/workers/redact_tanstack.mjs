// TanStack AI: contentGuardMiddleware on the text of an adapter that streams.
//
// redact {pieces: JSON, guards, events}: a run whose adapter says these pieces, with that many
// guards, 0 or 1, in the strategy that finds what is cut in pieces; events: how many pieces.

import { chat } from "@tanstack/ai";
import { contentGuardMiddleware } from "@tanstack/ai/middlewares";

import { serve } from "./serving.mjs";

const rules = [
  { pattern: /[\w.%+-]{1,64}@(?:\w[\w-]{0,62}\.){1,8}[a-zA-Z]{2,63}/g, replacement: "[email]" },
  { pattern: /(?<![0-9])[2-6](?:[ -]?[0-9]){12,18}(?![0-9])/g, replacement: "[card]" },
  { pattern: /\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b/g, replacement: "[ip]" },
];

const adapterOf = (pieces) => ({
  kind: "text",
  name: "scripted",
  model: "scripted",
  async *chatStream({ threadId = "t", runId = "r" }) {
    const known = { model: "scripted", timestamp: 0 };
    yield { type: "RUN_STARTED", threadId, runId, ...known };
    yield { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant", ...known };
    for (const delta of pieces)
      yield { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta, ...known };
    yield { type: "TEXT_MESSAGE_END", messageId: "m", ...known };
    yield { type: "RUN_FINISHED", threadId, runId, finishReason: "stop", ...known };
  },
});

const redact = ({ pieces, guards, events }) => {
  const said = JSON.parse(pieces);
  return async () => {
    const stream = chat({
      adapter: adapterOf(said),
      messages: [{ role: "user", content: "Speak." }],
      middleware: Array.from({ length: guards }, () =>
        contentGuardMiddleware({ rules, strategy: "buffered" }),
      ),
    });
    let text = "";
    for await (const chunk of stream)
      if (chunk.type === "TEXT_MESSAGE_CONTENT") text += chunk.delta;
    const clear = text.includes("@");
    if (clear === guards > 0) throw new Error("addresses have left, or were never there");
    return events;
  };
};

await serve({ redact }, "@tanstack/ai");
