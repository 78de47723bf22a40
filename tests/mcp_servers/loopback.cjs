// Preloaded into the servers from npm, which listen on all interfaces: they listen on this machine
// alone, on a free port that is reported as a line of JSON, and end when standard input ends.
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (...parts) {
  const done = parts.find((part) => typeof part === "function");
  const server = listen.call(this, { host: "127.0.0.1", port: 0 }, done);
  server.once("listening", () => {
    process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`);
  });
  return server;
};
process.stdin.on("end", () => process.exit(0)).resume();
