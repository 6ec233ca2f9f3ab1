"""A tour of countd with the client that openapi-python-client generates. COUNTD_URL is the address of countd."""

import os

from countd_client import Client
from countd_client.api.actions import action
from countd_client.api.counters import counter
from countd_client.api.feeds import feed
from countd_client.api.users import status, who
from countd_client.models import Action, Entity, FeedEntity, FeedRequest, ProblemDetails

NOTE, USER = "114327608932745216", "113984275610238976"
client = Client(base_url=os.environ["COUNTD_URL"] + "/api/v1")
body = Action(etype="note", eid=NOTE, uid=USER)


def text(value: bool) -> str:
    return str(value).lower()


for name in ["like", "like again"]:
    reply = action.sync_detailed("like", client=client, body=body)
    print(name, int(reply.status_code), "changed", text(reply.parsed.changed), "count", reply.parsed.count)

for name in ["repost", "repost with the same key"]:
    reply = action.sync_detailed("repost", client=client, body=body, idempotency_key="tour-1")
    replayed = "yes" if reply.headers.get("Idempotent-Replayed") == "true" else "no"
    print(name, int(reply.status_code), "changed", text(reply.parsed.changed), "replayed", replayed)

found = status.sync("note", NOTE, client=client, uid=USER, metrics="like,fav")
print("status", *(f"{metric} {text(found.status[metric])}" for metric in ["fav", "like"]))

counts = counter.sync("note", NOTE, client=client, metrics="like")
print("counter", counts.eid, "like", counts.counts["like"])

page = feed.sync(client=client, body=FeedRequest(uid=USER, items=[Entity(etype="note", eid=NOTE)]))
item = page.items[0]
assert isinstance(item, FeedEntity)
print("feed", item.eid, "like", item.counts["like"], "liked", text(item.status["like"]))

print("users who like it", *who.sync("like", "note", NOTE, client=client).users)

reply = action.sync_detailed("clap", client=client, body=body)
assert isinstance(reply.parsed, ProblemDetails)
print("clap", int(reply.status_code), reply.headers["content-type"], reply.parsed.code)
