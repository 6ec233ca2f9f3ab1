// A tour of countd with openapi-fetch and the types that openapi-typescript generates. COUNTD_URL is the address of countd.
import createClient from "openapi-fetch";
import type { paths } from "./countd.js";

const note = "114327608932745216";
const user = "113984275610238976";
const client = createClient<paths>({ baseUrl: `${process.env.COUNTD_URL}/api/v1` });
const body = { etype: "note", eid: note, uid: user };

/** The data of a response, which must be a success. */
function ok<T>({ data, error }: { data?: T; error?: { detail: string } }): T {
  if (data === undefined) throw new Error(error?.detail);
  return data;
}

for (const name of ["like", "like again"]) {
  const reply = await client.POST("/action/{metric}", { params: { path: { metric: "like" } }, body });
  const { changed, count } = ok(reply);
  console.log(name, reply.response.status, "changed", changed, "count", count);
}

for (const name of ["repost", "repost with the same key"]) {
  const params = { path: { metric: "repost" }, header: { "Idempotency-Key": "tour-1" } };
  const reply = await client.POST("/action/{metric}", { params, body });
  const replayed = reply.response.headers.get("Idempotent-Replayed") === "true" ? "yes" : "no";
  console.log(name, reply.response.status, "changed", ok(reply).changed, "replayed", replayed);
}

const path = { etype: "note", eid: note };
const query = { uid: user, metrics: "like,fav" };
const { status } = ok(await client.GET("/status/{etype}/{eid}", { params: { path, query } }));
console.log("status", "fav", status.fav, "like", status.like);

const counter = ok(await client.GET("/counter/{etype}/{eid}", { params: { path, query: { metrics: "like" } } }));
console.log("counter", counter.eid, "like", counter.counts.like);

const page = ok(await client.POST("/feed", { body: { uid: user, items: [path] } }));
const item = page.items[0];
if ("error" in item) throw new Error(item.error.detail);
console.log("feed", item.eid, "like", item.counts.like, "liked", item.status.like);

const who = await client.GET("/who/{metric}/{etype}/{eid}", { params: { path: { ...path, metric: "like" } } });
console.log("users who like it", ...ok(who).users);

const unknown = await client.POST("/action/{metric}", { params: { path: { metric: "clap" } }, body });
console.log("clap", unknown.response.status, unknown.response.headers.get("content-type"), unknown.error?.code);
