//! Checks at the start that the Redis user has the required permissions. A missing permission would otherwise fail a request later.
//! Nothing would be lost or counted twice, because scripts check permissions before their first write (see `lua/permission.lua`).

use super::examples::RequiredPermission;
use super::required::required_permissions;
use super::roles::{Roles, backends_until_adopted};
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::redis::script::{CounterBackend, LoadedScript};
use countd::redis::store::Store;
use redis::RedisError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

static ACL_CHECK: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../../lua/acl_check.lua")));

/// Checks, on each node, that the Redis user has the permissions that these roles require.
///
/// # Errors
/// [`ConnectError::MissingPermissions`], or a node is unavailable.
pub async fn check(store: &Store, config: &Config, roles: Roles) -> Result<(), ConnectError> {
    check_on(store, config, roles, &[store.backend()]).await
}

/// [`check`] with all roles, for the time until the data is converted to the module's types, and after it.
///
/// # Errors
/// See [`check`].
pub async fn check_adoption(store: &Store, config: &Config) -> Result<(), ConnectError> {
    let mut backends = backends_until_adopted(store);
    // The last pass of an adoption, when the data has the module's types.
    backends.push(CounterBackend::ModuleOrStrings);
    check_on(store, config, Roles::ALL, &backends).await
}

async fn check_on(
    store: &Store,
    config: &Config,
    roles: Roles,
    backends: &[CounterBackend],
) -> Result<(), ConnectError> {
    let required = required_permissions(store, config, roles, backends);
    let mut call = redis::cmd("EVALSHA");
    call.arg(ACL_CHECK.script.get_hash()).arg(0);
    for permission in &required {
        call.arg(permission.args.len()).arg(&permission.args);
    }
    let servers = store.servers().map_err(|error| match error {
        countd::domain::error::StoreError::Unavailable(error)
        | countd::domain::error::StoreError::Rejected(error) => error,
        error => RedisError::from(std::io::Error::other(error.to_string())),
    })?;
    for mut server in servers {
        ACL_CHECK.script.load_async(&mut server).await?;
        let replies: Vec<u8> = call.query_async(&mut server).await?;
        let missing = missing_permissions(&required, &replies);
        if !missing.is_empty() {
            return Err(ConnectError::MissingPermissions(missing.join("; ")));
        }
    }
    Ok(())
}

/// Describes the missing permissions briefly: a command if it is missing for all keys, a key if all commands are missing for it.
fn missing_permissions(required: &[RequiredPermission], replies: &[u8]) -> Vec<String> {
    let with_reply = |reply: u8| {
        let all = required.iter().zip(replies);
        all.filter(move |(_, other)| **other == reply)
            .map(|(permission, _)| permission)
    };
    let unknown: BTreeSet<&str> = with_reply(2).map(RequiredPermission::command).collect();
    let mut described: Vec<String> = unknown
        .iter()
        .map(|command| format!("the server has no {command}"))
        .collect();
    let mut missing: Vec<&RequiredPermission> = with_reply(0).collect();
    let allowed: Vec<&RequiredPermission> = with_reply(1).collect();
    // Greedy: each round picks the cause of the most missing permissions.
    loop {
        let mut causes: BTreeMap<Cause<'_>, usize> = BTreeMap::new();
        for permission in &missing {
            for cause in Cause::of(permission) {
                if !allowed.iter().any(|permission| cause.covers(permission)) {
                    *causes.entry(cause).or_default() += 1;
                }
            }
        }
        let Some((cause, _)) = causes.into_iter().max_by_key(|(_, count)| *count) else {
            break;
        };
        missing.retain(|permission| !cause.covers(permission));
        described.push(cause.to_string());
    }
    described.extend(missing.iter().map(|permission| match permission.key() {
        Some(key) => format!("{} on keys such as {key}", permission.command()),
        None => permission.command().to_owned(),
    }));
    described
}

/// The cause of a missing permission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause<'a> {
    /// No command is allowed for keys such as this one.
    Key(&'a str),
    /// The command is not allowed.
    Command(&'a str),
}

impl<'a> Cause<'a> {
    fn of(permission: &'a RequiredPermission) -> impl Iterator<Item = Cause<'a>> {
        let key = permission.key().map(Cause::Key);
        key.into_iter()
            .chain([Cause::Command(permission.command())])
    }

    fn covers(&self, permission: &RequiredPermission) -> bool {
        match self {
            Cause::Key(key) => permission.key() == Some(key),
            Cause::Command(command) => permission.command() == *command,
        }
    }
}

impl std::fmt::Display for Cause<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Key(key) => write!(to, "keys such as {key}"),
            Cause::Command(command) => to.write_str(command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_kinds::KeyKind;
    use super::*;

    fn permission(line: &str) -> RequiredPermission {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let key = args.get(1).cloned();
        let kind = key.map(|example| KeyKind {
            pattern: example.clone(),
            example,
        });
        RequiredPermission {
            args,
            keys: kind.into_iter().collect(),
        }
    }

    #[test]
    fn missing_permissions_are_described_briefly() {
        let required = ["HGET a", "HSET a", "HGET b", "HSET b", "PING", "DEL a"].map(permission);
        let described = |replies: [u8; 6]| missing_permissions(&required, &replies).join("; ");
        assert_eq!(described([1, 1, 1, 1, 1, 1]), "");
        assert_eq!(described([1, 0, 1, 0, 1, 1]), "HSET");
        assert_eq!(described([1, 1, 0, 0, 1, 1]), "keys such as b");
        assert_eq!(described([1, 0, 1, 1, 1, 1]), "HSET on keys such as a");
        assert_eq!(
            described([1, 1, 0, 0, 0, 2]),
            "the server has no DEL; keys such as b; PING"
        );
    }
}
