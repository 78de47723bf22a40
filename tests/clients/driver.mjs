// Drives the real @ag-ui/client: one job a line on standard input, one report a line on standard
// output, both JSON. One driver serves every version of the client:
//
//   node driver.mjs v1 < jobs
//
// A job is a conversation: {url, threadId, messages, state, headers, tools, use, steps}. Each step
// adds messages (`add`), then runs the agent (`run: false` leaves that out) with `tools`, `resume`,
// `context` and `forwardedProps`; `answers` are those to the interrupts that the run before ended
// with, in their order, where their ids cannot be known beforehand; `abortAfter` names the type of
// event upon which the run is aborted, `detachAfter` likewise; `abortIn` aborts it after so many
// milliseconds. The client's own pipeline is used as it is: verification cannot be switched off, and
// what it refuses is the step's `error`.
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const folder = resolve(import.meta.dirname, process.argv[2]);
const require = createRequire(`${folder}/package.json`);
const { HttpAgent } = require("@ag-ui/client");
const { map } = require("rxjs/operators");

const STEP_SECONDS = 30;
const copy = (value) => (value === undefined ? undefined : structuredClone(value));

// What the client says on the console is part of what a job reports, and keeps off standard output.
let said = [];
for (const name of ["log", "info", "warn", "error", "debug"]) {
  console[name] = (...parts) => said.push(`${name}: ${parts.map(String).join(" ")}`);
}

// Everything that a subscriber may be told, in order; `events` are those that passed verification.
function recorder(events, calls, upon) {
  return new Proxy(
    {},
    {
      get: (_, name) => {
        if (typeof name !== "string" || !name.startsWith("on")) return undefined;
        return (told) => {
          const { event, error, message, toolCall, outcome, pendingToolCallIds } = told ?? {};
          if (name === "onEvent") {
            events.push(copy(event));
            upon(event.type);
            return;
          }
          calls.push(
            copy({
              name,
              type: event?.type,
              outcome,
              pendingToolCallIds,
              messageId: message?.id,
              toolCallId: toolCall?.id ?? event?.toolCallId,
              tool: toolCall?.function.name ?? told.toolCallName,
              arguments: told.toolCallArgs,
              error: error && String(error),
            }),
          );
        };
      },
    },
  );
}

// A function middleware: it sees what comes off the wire, and marks each event.
const marking = (wire) => (input, next) =>
  next.run(input).pipe(
    map((event) => {
      wire.push(event.type);
      return { ...event, metadata: { ...event.metadata, marked: true } };
    }),
  );

const answered = (interrupts, answers) =>
  answers?.map((answer, number) => ({ interruptId: interrupts[number].id, ...answer }));

async function step(agent, asked) {
  const events = [];
  const calls = [];
  const started = performance.now();
  let stopped;
  const stopIn = (milliseconds) =>
    setTimeout(() => {
      stopped = performance.now();
      if (asked.detachAfter) void agent.detachActiveRun();
      else agent.abortRun();
    }, milliseconds);
  let stopping;
  const upon = (type) => {
    // Not from inside the pipeline that is to be stopped.
    if (type === asked.abortAfter || type === asked.detachAfter) stopping ??= stopIn(20);
  };
  for (const message of asked.add ?? []) agent.addMessage(message);
  const report = {};
  if (asked.run !== false) {
    const { runId, tools, context, forwardedProps } = asked;
    const resume = asked.resume ?? answered(agent.pendingInterrupts, asked.answers);
    if (asked.abortIn !== undefined) stopping = stopIn(asked.abortIn);
    const late = setTimeout(() => agent.abortRun(), STEP_SECONDS * 1000);
    try {
      const ended = await agent.runAgent(
        { runId, tools, resume, context, forwardedProps },
        recorder(events, calls, upon),
      );
      report.result = copy(ended.result);
      report.newMessages = ended.newMessages;
    } catch (error) {
      report.error = { message: String(error?.message ?? error), status: error?.status };
      report.error.payload = copy(error?.payload);
    } finally {
      clearTimeout(late);
      clearTimeout(stopping);
    }
    // Callbacks at the end (onRunFinalized) are fired and forgotten by the client.
    await new Promise((done) => setTimeout(done, 5));
  }
  const seconds = (performance.now() - started) / 1000;
  return {
    ...report,
    events,
    calls,
    seconds,
    settled: stopped === undefined ? undefined : (performance.now() - stopped) / 1000,
    messages: copy(agent.messages),
    state: copy(agent.state),
    pendingInterrupts: copy(agent.pendingInterrupts),
  };
}

async function play(job) {
  const { url, threadId, messages, state, headers } = job;
  const agent = new HttpAgent({ url, threadId, headers, initialMessages: messages, initialState: state });
  const wire = [];
  if (job.use) agent.use(marking(wire));
  said = [];
  const steps = [];
  for (const asked of job.steps) steps.push(await step(agent, asked));
  return { steps, wire, said };
}

for await (const line of createInterface({ input: process.stdin })) {
  let report;
  try {
    report = await play(JSON.parse(line));
  } catch (error) {
    report = { failed: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
