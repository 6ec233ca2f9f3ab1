//! countd: the counting service around the CountInt module. It exposes an HTTP API, appends events to a log on Redis Streams, and
//! consumes the log exactly once. It uses the module through Redis commands only.
//!
//! The modules form layers. A module imports only those above it in this table:
//!
//! | module | in | out | calls |
//! |---|---|---|---|
//! | [`domain`] | bytes of requests, events and settings | names, IDs, keys, events, the configuration, errors; no I/O | nothing |
//! | [`http_client`] | URLs, requests | responses of other servers | nothing |
//! | [`trace`] | spans | requests to an OpenTelemetry collector | `http_client` |
//! | [`redis`] | commands and scripts | replies of a server or a cluster: routing, timeouts, retries of reads | `domain` |
//! | [`log`] | entries to append; partitions to read, repair or reset | offsets and entries; dead letters | `redis` |
//! | [`storage`] | names of schemas and metrics | the field of a counter; cached schemas | `redis` |
//! | [`facts`] | a user, a metric, an entity | the command that records, checks or lists a fact | `redis` |
//! | [`repair`] | entities and users | what their counters are computed from; corrected counters | `facts`, `storage` |
//! | [`query`] | entities, users, metrics | counters, statuses, pages of users | `facts`, `storage` |
//! | [`ingest`] | actions and envelopes | outcomes; events in the log; rate-limit decisions | `log`, `facts`, `storage` |
//! | [`consumer`] | partitions of the log | committed counters and positions; derived events; dead letters | `log`, `facts`, `storage` |
//! | [`maintenance`] | commands of operators | imported facts and counts; restored snapshots | `ingest`, `query`, `consumer`, `log`, `facts`, `storage` |
//! | [`database`] | SQL statements | replies of PostgreSQL, MySQL or MariaDB | `domain` |
//! | [`relay`] | rows of an outbox table in a database | events in the log; settled rows | `database`, `ingest`, `log`, `storage` |
//! | [`sink`] | the log, facts and counters | rows of tables in a database | `database`, `consumer`, `query`, `log`, `facts`, `storage` |
//! | [`monitor`] | the state of the logs and of the nodes | samples for `/metrics` | `log` |
//! | [`http`] | HTTP requests | responses, the OpenAPI document, metrics | `ingest`, `query`, `storage`, `facts`, `monitor` |
//!
//! The binary adds the command line (`cli`) and starts the server and the consumer (`process`).

#![warn(missing_docs)]

pub mod consumer;
pub mod database;
pub mod domain;
pub mod facts;
pub mod http;
pub mod http_client;
pub mod ingest;
pub mod log;
pub mod maintenance;
pub mod monitor;
pub mod query;
pub mod redis;
pub mod relay;
pub mod repair;
pub mod sink;
pub mod storage;
pub mod trace;
