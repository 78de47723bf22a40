// Nested async generators, for orientation: what the plainest way to wrap costs in JavaScript.
//
// events {layers, kind: "nested", events}: one stream of events through that many generators.

import { serve } from "./serving.mjs";

async function* source(events) {
  for (let number = 0; number < events; number++) yield { type: "EVENT", delta: "x" };
}

async function* layer(inner) {
  for await (const event of inner) yield event;
}

const events =
  ({ layers, events }) =>
  async () => {
    let stream = source(events);
    for (let number = 0; number < layers; number++) stream = layer(stream);
    let seen = 0;
    for await (const event of stream) if (event.delta) seen++;
    return seen;
  };

await serve({ events });
