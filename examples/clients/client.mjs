import { createClient, RESP_TYPES } from "redis";

const client = await createClient({ url: process.env.REDIS_URL ?? "redis://127.0.0.1:6379" }).connect();
const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });

// Fields 0, 1, 2 of a post: reads, likes, comments. Arguments are strings.
console.log("likes", await client.sendCommand(["CINT.INCRBY", "demo:post:1", "1", "1", "LEN", "3"]));
await client.sendCommand(["CINT.BATCHINCR", "demo:post:1", "0", "11", "2", "5"]);

// A page of posts in one call: 3 fields of 5 big-endian bytes for each key. Ask for a Buffer, not for text.
const page = await binary.sendCommand(["CINT.MREAD", "3", "demo:post:1", "demo:post:2"]);
const counts = [];
for (let i = 0; i < page.length; i += 5) counts.push(page.readUIntBE(i, 5));
console.log("page", ...counts);

// Who liked it: an exact set of 64-bit ids. Ids stay strings (a JavaScript number is exact only to 2^53).
for (let i = 0; i < 2; i++) {
  console.log("new", await client.sendCommand(["RBM.ADD", "demo:likes:1", "18446744073709551615"]));
}

await client.unlink(["demo:post:1", "demo:likes:1"]);
client.destroy();
