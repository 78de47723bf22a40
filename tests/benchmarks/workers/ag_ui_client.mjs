// The AG-UI client: middlewares over the events of a run, as its documentation shows them.
//
// events {layers, kind, events}: a whole runAgent over that many pieces of text.
// chain {layers, kind, events}: the middlewares alone, put together as runAgent does.
// Kinds: "class" (extends Middleware, runNext and map), "function" (next.run and map).

import { AbstractAgent, Middleware } from "@ag-ui/client";
import { from } from "rxjs";
import { map } from "rxjs/operators";

import { serve } from "./serving.mjs";

const THREAD = { threadId: "t", runId: "r" };

const scriptOf = (events) => [
  { type: "RUN_STARTED", ...THREAD },
  { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" },
  ...Array.from({ length: events }, () => ({
    type: "TEXT_MESSAGE_CONTENT",
    messageId: "m",
    delta: "x",
  })),
  { type: "TEXT_MESSAGE_END", messageId: "m" },
  { type: "RUN_FINISHED", ...THREAD },
];

class Scripted extends AbstractAgent {
  constructor(script) {
    super({ threadId: THREAD.threadId });
    this.script = script;
  }

  run() {
    return from(this.script);
  }
}

class Layer extends Middleware {
  run(input, next) {
    return this.runNext(input, next).pipe(map((event) => event));
  }
}

const KINDS = {
  class: () => new Layer(),
  function: () => (input, next) => next.run(input).pipe(map((event) => event)),
};

const layersOf = (kind, layers) => Array.from({ length: layers }, () => KINDS[kind]());

const agentOf = (script, kind, layers) =>
  new Scripted(script).use(...layersOf(kind, layers));

const events = ({ layers, kind, events }) => {
  const script = scriptOf(events);
  return async () => {
    let seen = 0;
    const subscriber = { onTextMessageContentEvent: () => void seen++ };
    await agentOf(script, kind, layers).runAgent({ runId: THREAD.runId }, subscriber);
    return seen;
  };
};

const chain = ({ layers, kind, events }) => {
  const script = scriptOf(events);
  return async () => {
    const agent = agentOf(script, kind, layers);
    const chained = agent.middlewares.reduceRight(
      (next, middleware) => ({ run: (input) => middleware.run(input, next) }),
      agent,
    );
    let seen = 0;
    await chained
      .run({ ...THREAD, messages: [], state: {} })
      .forEach((event) => void (seen += event.type === "TEXT_MESSAGE_CONTENT"));
    return seen;
  };
};

await serve({ events, chain }, "@ag-ui/client", "rxjs");
