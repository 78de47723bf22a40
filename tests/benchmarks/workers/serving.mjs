// What every worker in JavaScript does: say that it is ready, and do what its input asks for.

import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const wall = () => performance.now() / 1000;

const SCHEDULED = "/proc/thread-self/schedstat";
const nobody = new Int32Array(new SharedArrayBuffer(4));

// Of the thread that runs JavaScript. Those that compile it and collect its garbage wait for each
// other by spinning, so their time says more about how busy a machine is than about the work. What
// the system knows about a thread is brought up to date when the thread waits.
const ofThread = () => {
  Atomics.wait(nobody, 0, 0, 0.01);
  return Number(readFileSync(SCHEDULED, "utf8").split(" ")[0]) / 1e9;
};

const ofProcess = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

const processor = existsSync(SCHEDULED) ? ofThread : ofProcess;

const CLOCKS = { wall, processor };

const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url)))
    .version;

/**
 * Answer each line of input with the seconds of an action, until the input ends.
 *
 * An action makes, of the arguments that it is asked for with, a function that does the work once
 * and returns how many events came out. What is asked for the first time is done once before it is
 * measured.
 */
export async function serve(actions, ...packages) {
  const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
  console.log = console.error; // what a package prints is no answer
  const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]));
  say({ ready: true, versions: { ...versions, node: process.versions.node } });
  const known = new Set();
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, clock = "wall", ...rest } = JSON.parse(line);
    try {
      const work = actions[name](rest);
      if (!known.has(line)) await work();
      known.add(line);
      say({ seconds: await timed(work, rest.events, CLOCKS[clock]) });
    } catch (error) {
      say({ error: String(error) });
    }
  }
}

async function timed(work, events, clock) {
  globalThis.gc?.();
  const since = clock();
  const seen = await work();
  const taken = clock() - since;
  if (seen !== events) throw new Error(`${seen} instead of ${events} events`);
  return taken;
}
