// Serve the fixtures, on a free port of this machine, for as long as whoever started this lives.
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ host: "127.0.0.1", port: 0, strict: true, logLevel: "warn" });
mock.loadFixtureFile(new URL("fixtures.json", import.meta.url).pathname);
await mock.start();
console.log(mock.url);
process.stdin.on("end", () => process.exit(0)).resume();
