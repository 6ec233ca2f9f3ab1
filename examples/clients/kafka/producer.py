"""Sends the reads and a comment of a few notes to the topic that countd counts."""

import json
import os
import sys
import time

from confluent_kafka import Producer

TOPIC = os.environ.get("KAFKA_TOPIC", "cnt-update")

producer = Producer({
    "bootstrap.servers": os.environ.get("KAFKA_BROKERS", "127.0.0.1:9092"),
    # The partitioner of Java clients. Clients of librdkafka have another one by default: countd would reject the records.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
})
failed = []


def send(etype, eid, value):
    """The key is that of the entity, so the partitioner chooses the partition in which countd expects the record."""
    producer.produce(TOPIC, key=f"{etype}:{eid}", value=json.dumps(value),
                     on_delivery=lambda error, _: error and failed.append(error))
    producer.poll(0)


def read(etype, eid, uid):
    """An event."""
    send(etype, eid, {"etype": etype, "eid": eid, "metric": "read", "delta": 1, "uid": uid, "ts": int(time.time() * 1000)})


def comment(event_id, etype, eid, uid):
    """An envelope: an event with an ID. However often it is sent, it counts once."""
    send(etype, eid, {"event_id": event_id, "event_type": "comment", "aggregate_type": etype, "aggregate_id": eid,
                      "payload": {"delta": 1, "uid": uid}})


for i in range(100):
    read("note", str(i % 10), f"user-{i}")
# Twice, as an application would that does not know whether the first attempt succeeded: it counts once.
for _ in range(2):
    comment("comment-4712", "note", "3", "user-2")
producer.flush()
if failed:
    sys.exit(f"not accepted: {failed[0]}")
print("sent 102")
