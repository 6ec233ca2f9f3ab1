//! The support code of the integration tests: servers, replicas, clusters, clients and snapshots.
//!
//! A test starts its own [`Server`] (or [`Cluster`]) on a free port in its own directory and talks to it with a
//! [`Client`]. On drop, the process is killed by its pid and the directory is removed. A failing test prints the end of
//! the log of its server.
//!
//! ```no_run
//! use countint_tests::Server;
//!
//! let server = Server::start();
//! let mut client = server.client();
//! client.expect("CINT.INCRBY k 2 5 LEN 3", "(integer) 5");
//! client.expect("CINT.DUMP k", "1) (integer) 0\n2) (integer) 0\n3) (integer) 5");
//! ```
//!
//! Environment variables:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `COUNTINT_SERVER` | the server's executable, optionally after a wrapper such as `valgrind --x` | `redis-server` |
//! | `COUNTINT_CLI` | the command line client | beside the server, else `redis-cli` |
//! | `COUNTINT_MODULE` | the module | `target/release/libcountint.so` |
//! | `COUNTINT_MODULE_FAULTS` | the module built with the feature `fault-injection` | `target/faults/libcountint.so` |
//! | `COUNTINT_SLOW` | multiplies every deadline (valgrind: 20) | 1 |
//! | `COUNTINT_DEFRAG` | `yes`: the server must be able to defragment memory, which requires its own jemalloc | unset |
//! | `COUNTINT_SEED` | the seed of randomised tests, which print it: repeats a run that failed | another one in each run |
//! | `COUNTINT_ACTIONS` | the number of actions of `kafka::kills` in countd's tests | 200000 |
//! | `COUNTINT_SCENARIO` | only scenarios of `kafka::brokers` with this in their names | all |
//! | `COUNTINT_KAFKA` | the directory with the jars of Kafka, which `scripts/kafka` prints | unset |
//! | `COUNTINT_KEEP` | keeps the directory of a failed test | unset |

pub mod builder;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod console;
pub mod disk;
pub mod env;
pub mod kafka;
pub mod line;
pub mod page;
pub mod payload;
pub mod play;
pub mod reply;
mod routing;
pub mod scenario;
pub mod server;
mod shim;
pub mod snapshot;
pub mod stream;
pub mod wait;

pub use builder::Builder;
pub use client::{Client, RawSocket};
pub use clock::Clock;
pub use cluster::Cluster;
pub use disk::Disk;
pub use redis::Value;
pub use scenario::Scenario;
pub use server::{Server, Version};
pub use snapshot::Snapshot;
pub use stream::ReplicationStream;
pub use wait::wait_until;
