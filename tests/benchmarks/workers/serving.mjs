// What every worker in JavaScript does: say that it is ready, and do what its input asks for.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url)))
    .version;

/** Answer each line of input with the seconds of an action, until the input ends. */
export async function serve(actions, ...packages) {
  const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
  const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]));
  say({ ready: true, versions: { ...versions, node: process.versions.node } });
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...rest } = JSON.parse(line);
    try {
      say({ seconds: await actions[name](rest) });
    } catch (error) {
      say({ error: String(error) });
    }
  }
}
