// Drives the real @ag-ui/mcp-apps-middleware around an agent that plays a script: one job a line on
// standard input, one report a line on standard output, both JSON.
//
// A job is {config, input, script}: the middleware's configuration, the input of a run, and the
// events of the agent, or a list of such lists, one for each time that the agent is run. A script's
// RUN_STARTED and RUN_FINISHED get the ids of the input, where they have none. The report has the
// `events` that a consumer sees, the `error` that the stream ended with or null, the `inputs` that
// the agent was given, and what was `said` on the console. A job {hash: server} is answered with the
// server's hash.
import { createInterface } from "node:readline";
import { AbstractAgent } from "@ag-ui/client";
import { MCPAppsMiddleware, getServerHash } from "@ag-ui/mcp-apps-middleware";
import { from, throwError } from "rxjs";

const SECONDS = 30;

// What is said on the console is part of a report, and keeps off standard output.
let said = [];
const text = (part) => (part instanceof Error ? String(part) : JSON.stringify(part));
for (const name of ["log", "info", "warn", "error", "debug"]) {
  console[name] = (...parts) => said.push(`${name}: ${parts.map(text).join(" ")}`);
}

class Scripted extends AbstractAgent {
  constructor(script) {
    super();
    this.scripts = Array.isArray(script[0]) ? [...script] : [script];
    this.inputs = [];
  }

  run(input) {
    this.inputs.push(structuredClone(input));
    const script = this.scripts.shift();
    if (script === undefined) return throwError(() => new Error("the script has no further run"));
    const { threadId, runId } = input;
    const isEnd = ({ type }) => type === "RUN_STARTED" || type === "RUN_FINISHED";
    return from(script.map((event) => (isEnd(event) ? { threadId, runId, ...event } : event)));
  }
}

function play({ config, input, script }) {
  const agent = new Scripted(script ?? []);
  const events = [];
  said = [];
  return new Promise((done) => {
    let running;
    const report = (error) => {
      clearTimeout(late);
      running?.unsubscribe();
      done({ events, error, inputs: agent.inputs, said });
    };
    const late = setTimeout(() => report(`no end within ${SECONDS} s`), SECONDS * 1000);
    running = new MCPAppsMiddleware(config).run(input, agent).subscribe({
      next: (event) => events.push(event),
      error: (error) => report(String(error?.message ?? error)),
      complete: () => report(null),
    });
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  let report;
  try {
    const job = JSON.parse(line);
    report = job.hash ? { hash: getServerHash(job.hash) } : await play(job);
  } catch (error) {
    report = { events: [], error: String(error?.message ?? error), inputs: [], said };
  }
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
process.exit(0);
