// Nested async generators, for orientation: what JavaScript asks for the plainest way to wrap.
//
// events {layers, events, kind: "nested"}: one stream of events through that many generators.

import { serve } from "./serving.mjs";

async function* source(events) {
  for (let number = 0; number < events; number++) yield { type: "EVENT", delta: "x" };
}

async function* layer(inner) {
  for await (const event of inner) yield event;
}

async function events({ layers, events: wanted }) {
  let stream = source(wanted);
  for (let number = 0; number < layers; number++) stream = layer(stream);
  let seen = 0;
  const since = performance.now();
  for await (const event of stream) if (event.delta) seen++;
  const taken = performance.now() - since;
  if (seen !== wanted) throw new Error(`${seen} of ${wanted} events`);
  return taken / 1000;
}

await serve({ events });
