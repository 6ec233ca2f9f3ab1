//! What the levels of `redis.ack` cost: likes with an append-only file and a replica.

use std::borrow::Cow;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Setting, Target};
use crate::driver::http::post;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::countd::clients::send_each;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// A level, and when the server syncs its append-only file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The level, as in `redis.ack`.
    pub ack: &'static str,
    /// The server's `appendfsync`.
    pub appendfsync: &'static str,
    /// The name in figures.
    pub name: &'static str,
}

/// All levels, with the one of a default server first.
pub const LEVELS: [Level; 4] = [
    Level {
        ack: "memory",
        appendfsync: "everysec",
        name: "memory",
    },
    Level {
        ack: "fsync",
        appendfsync: "everysec",
        name: "fsync",
    },
    Level {
        ack: "fsync",
        appendfsync: "always",
        name: "fsync-always",
    },
    Level {
        ack: "replicas:1",
        appendfsync: "everysec",
        name: "replicas-1",
    },
];
/// The numbers of connections, each with one request in flight.
pub const CONNECTIONS: [usize; 2] = [1, 64];
/// The first version of Redis with WAITAOF.
const WAITAOF: (u32, u32) = (7, 2);
/// The timeout for the replica to follow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Likes per second with a level and a number of connections.
pub struct Measured {
    /// The level.
    pub level: Level,
    /// The number of connections.
    pub connections: usize,
    /// Likes per second.
    pub per_second: f64,
}

/// Takes all measurements. Without WAITAOF, `fsync` is left out.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for _ in 0..scale.countd.repeats {
        eprintln!("bench: countd, levels of redis.ack");
        let (dir, of_replica) = (&Workdir::new()?, &Workdir::new()?);
        let (module, aof) = (Some(programs.module.as_path()), ["--appendonly", "yes"]);
        let server = &Server::start_with(programs, dir, module, &aof)?;
        let port = server.port().to_string();
        let replica = ["--replicaof", "127.0.0.1", &port];
        let replica = Server::start_with(programs, of_replica, module, &replica)?;
        wait_until_up(&replica)?;
        let target = Target::new(programs, server, dir);
        target.create_schema()?;
        let has_waitaof = has_waitaof(&server.control()?.info("server", "redis_version")?);
        let mut user = 0;
        for level in LEVELS {
            if level.ack == "fsync" && !has_waitaof {
                continue;
            }
            let sync = format!("CONFIG SET appendfsync {}", level.appendfsync);
            server.control()?.call(&sync)?;
            let settings: [Setting; 1] = [("COUNTD_REDIS__ACK", level.ack.to_owned())];
            let countd = Countd::start_with(&target, "serve", &settings)?;
            for connections in CONNECTIONS {
                let per_second = likes(&countd, connections, &mut user, scale.countd.requests)?;
                all.push(Measured {
                    level,
                    connections,
                    per_second,
                });
            }
        }
    }
    Ok(all)
}

/// Likes per second, each of another user and on one of a million entities.
fn likes(countd: &Countd, connections: usize, user: &mut u64, time: Duration) -> Result<f64> {
    let first = *user;
    let like = |number: u64| {
        let eid = EntityPool::LongTail.pick(&mut SplitMix(number));
        let uid = 1_000_000_000_000_000 + first + number;
        let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
        Cow::from(post("/action/like", &body))
    };
    let mut sent = send_each(countd.port, like, connections, time / 10)?;
    let started = Instant::now();
    let from = sent;
    let done = send_each(countd.port, |number| like(from + number), connections, time)?;
    sent += done;
    *user += sent;
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Whether a version of the server has WAITAOF.
fn has_waitaof(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= WAITAOF
}

fn wait_until_up(replica: &Server) -> Result<()> {
    let (mut control, started) = (replica.control()?, Instant::now());
    while control.info("replication", "master_link_status")? != "up" {
        if started.elapsed() > TIMEOUT {
            return Err("the replica does not follow its primary".into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(has_waitaof("7.2.4") && has_waitaof("8.0.2") && has_waitaof("10.0.0"));
        assert!(!has_waitaof("7.0.15") && !has_waitaof("6.2.7") && !has_waitaof("unknown"));
    }
}
