"""Hooks that adapt generated requests to countd's API."""

import json
import os
import re

import schemathesis

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# A job that exists, if there is one.
JOB = os.environ.get("COUNTD_JOB")
COUNTERS = ["unread", "followers", "posts", "nonsense"]
METRICS = ["read", "like", "fav", "comment", "view", "follow", "publish", "nonsense"]


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context, value):
    """NDJSON bodies are described as arrays, and sent with one item per line."""
    items = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(item) for item in items).encode()


def known(field, value):
    """Replaces generated names of types, metrics, counters, rankings, jobs and schemas by existing ones. Invalid names stay, because they must be rejected."""
    if isinstance(value, (dict, list)):
        return with_known_names(field, value)
    if not isinstance(value, str):
        return value
    if field == "id" and JOB and ID.fullmatch(value):
        return JOB if len(value) % 2 else value
    if not NAME.fullmatch(value):
        return value
    if field in ("etype", "aggregate_type"):
        return "user" if len(value) == 3 else "note"
    if field in ("metric", "metrics", "event_type"):
        return METRICS[sum(value.encode()) % len(METRICS)]
    if field in ("counter", "counters"):
        return COUNTERS[sum(value.encode()) % len(COUNTERS)]
    if field == "name":
        return "cold" if len(value) == 3 else "hot"
    if field == "schema":
        return "v1"
    return value


def with_known_names(field, value):
    if isinstance(value, list):
        return [known(field, item) for item in value]
    return {name: known(name, item) for name, item in value.items()}


@schemathesis.hook
def map_body(_context, body):
    return with_known_names("", body) if isinstance(body, (dict, list)) else body


@schemathesis.hook
def map_path_parameters(_context, path_parameters):
    return with_known_names("", path_parameters) if path_parameters else path_parameters


@schemathesis.hook
def map_query(_context, query):
    return with_known_names("", query) if isinstance(query, dict) else query
