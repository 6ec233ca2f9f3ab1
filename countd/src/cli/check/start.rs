//! What keeps countd from starting with this configuration and this data.

use super::report::{Finding, Remedy};
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::redis::layout::StoredLayout;

/// Why countd would not start, as the connection says.
pub(super) fn describe(error: &ConnectError) -> Finding {
    Finding::problem(error.to_string(), remedy(error))
}

/// What keeps processes from starting that they check after they have connected.
pub(super) fn of_layout(config: &Config, layout: &StoredLayout) -> Vec<Finding> {
    let mut errors = Vec::new();
    if layout.is_restoring {
        errors.push(ConnectError::Restoring);
    }
    if layout.archives && config.log.archive.dir().is_none() {
        errors.push(ConnectError::Archive);
    }
    errors.iter().map(describe).collect()
}

fn remedy(error: &ConnectError) -> Remedy {
    match error {
        ConnectError::Redis(_) => Remedy::advice(
            "no command of countd starts a server: start Redis, or correct redis.url, its password and redis.tls. `redis-cli -u \"$COUNTD_REDIS__URL\" PING` must answer PONG",
        ),
        ConnectError::NoModule(_) => {
            Remedy::command("redis-cli MODULE LOAD /usr/lib/redis/modules/libcountint.so").knowing(
                "on each server, also on replicas. Add `loadmodule` with this path to redis.conf, too: MODULE LOAD lasts until the server ends",
            )
        }
        ConnectError::Facts { setting: name, found, .. } => Remedy::command(setting(name, found)),
        ConnectError::Partitions { found, .. } => Remedy::command(setting("log.partitions", found)),
        ConnectError::UnknownLayout { .. } => Remedy::advice(
            "no command changes the form of the data: run the version of countd that wrote it or a later one. If no version did, countd:layout is damaged: restore a backup",
        ),
        ConnectError::UncountedCredit(name) => Remedy::advice(format!(
            "no command: set count = \"batched\" in [metrics.{name}], or remove the author from its users"
        )),
        ConnectError::UserCounters(names) => Remedy::advice(format!(
            "no command changes counters that users have: let users.counters begin with those that follow the five of all users in: {names}"
        )),
        ConnectError::Schema(_) => Remedy::command("countd schema list").knowing(
            "it prints what the data has. Change schemas and metrics of the configuration so that they agree: stored counters can only be appended, or migrated with `countd schema migrate`",
        ),
        ConnectError::Columns { .. } => {
            Remedy::advice("no command: start the process again, which then uses the new columns")
        }
        ConnectError::MissingPermissions(_) => Remedy::command("countd acl").knowing(
            "run it with the URL of a user who has all permissions. It prints the ACL SETUSER commands for the user of redis.url",
        ),
        ConnectError::Archive => Remedy::command("countd archive end")
            .knowing("this ends the archive. To go on with it, set log.archive.dir instead"),
        ConnectError::ArchiveRefused(_) => Remedy::advice(
            "no command: an archive of other or newer data must not be overwritten. Set log.archive.dir to that of this data, or restore the data first: `countd restore`",
        ),
        ConnectError::Restoring => Remedy::command("countd restore"),
        ConnectError::Seeds(_) => {
            Remedy::advice("no command makes a server a cluster: remove redis.seeds, or set redis.url to a node")
        }
        ConnectError::Ack(_, _) => Remedy::advice(
            "no command: use a server that has what redis.ack needs, or another redis.ack",
        ),
        ConnectError::Cluster => Remedy::advice(
            "start the masters that are down, or fail over to their replicas. `redis-cli --cluster check HOST:PORT` of any node names the slots, and `redis-cli --cluster fix HOST:PORT` assigns those that no node has",
        ),
    }
}

/// The command that gives a setting the value of the data.
fn setting(name: &str, value: &str) -> String {
    let variable = name.to_ascii_uppercase().replace('.', "__");
    format!("export COUNTD_{variable}={value}")
}
