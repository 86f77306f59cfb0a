import { readFileSync } from "node:fs";
import { connect } from "node:tls";

const [port, authority, ...rest] = process.argv.slice(2);
const ca = readFileSync(authority);

const attempt = (version, file) =>
  new Promise((resolve) => {
    const pem = readFileSync(file);
    const client = connect({
      host: "127.0.0.1",
      port: Number(port),
      servername: "localhost",
      ca,
      cert: pem,
      key: pem,
      minVersion: `TLSv${version}`,
      maxVersion: `TLSv${version}`,
      ciphers: "DEFAULT:@SECLEVEL=0",
    });
    client.once("data", () => resolve("ok"));
    client.once("error", (error) => resolve(error.message.trim()));
    client.once("close", () => resolve("closed"));
    client.setTimeout(30_000, () => client.destroy(new Error("timeout")));
  });

while (rest.length) console.log((await attempt(rest.shift(), rest.shift())).replaceAll("\n", " "));
process.exit();
