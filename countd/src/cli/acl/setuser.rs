//! `countd acl`: `ACL SETUSER` commands for users with exactly the required permissions.

use super::examples::RequiredPermission;
use super::required::required_permissions;
use super::roles::{Roles, backends_until_adopted};
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::Config;
use countd::redis::store::Store;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::io::Write;

/// Container commands: ACL rules name their subcommands.
const CONTAINERS: &[&str] = &["CLUSTER", "FUNCTION", "MEMORY", "SCRIPT", "XINFO"];

/// Commands that only read their keys. `EVALSHA` is not one: Redis requires permission to read and to write the keys of a script.
const READ_ONLY: &[&str] = &["CINT.MREAD", "CTAB.PAGE", "GETRANGE", "HGETALL"];

/// A user of Redis, as `ACL SETUSER` creates it.
#[derive(Serialize)]
struct AclUser {
    name: String,
    /// In the order in which Redis applies them. `>PASSWORD` stands for the password.
    rules: Vec<String>,
}

impl Display for AclUser {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ACL SETUSER {} {}", self.name, self.rules.join(" "))
    }
}

/// Runs `countd acl`.
///
/// # Errors
/// Stdout cannot be written.
pub fn run(store: &Store, config: &Config, user: &str, output: Output) -> Result<(), CommandError> {
    let users = users(store, config, user);
    output.report(&json!({ "users": users }), |out| {
        users.iter().try_for_each(|user| writeln!(out, "{user}"))
    })?;
    Ok(())
}

/// A user for each role: one that serves, one that consumes, one that relays, one that keeps tables, and one that does all of it and runs the commands for
/// operators.
fn users(store: &Store, config: &Config, user: &str) -> Vec<AclUser> {
    let (serves, consumes, relays, sinks) = (true, true, true, true);
    let roles = [
        (
            "-serve",
            Roles {
                serves,
                ..Roles::NONE
            },
        ),
        (
            "-consume",
            Roles {
                consumes,
                ..Roles::NONE
            },
        ),
        (
            "-relay",
            Roles {
                relays,
                ..Roles::NONE
            },
        ),
        (
            "-sink",
            Roles {
                sinks,
                ..Roles::NONE
            },
        ),
        ("", Roles::ALL),
    ];
    let users = roles.into_iter().map(|(suffix, roles)| {
        let backends = backends_until_adopted(store);
        let required = required_permissions(store, config, roles, &backends);
        let first = ["reset", "on", ">PASSWORD"].map(str::to_owned);
        AclUser {
            name: format!("{user}{suffix}"),
            rules: first.into_iter().chain(rules(&required)).collect(),
        }
    });
    users.collect()
}

/// The rules that allow these commands and keys and nothing else.
fn rules(required: &[RequiredPermission]) -> Vec<String> {
    let commands: BTreeSet<String> = required.iter().map(command_rule).collect();
    let mut rules = vec!["-@all".to_owned()];
    rules.extend(commands);
    rules.extend(key_rules(required));
    rules
}

fn command_rule(permission: &RequiredPermission) -> String {
    let command = permission.command();
    let subcommand = permission.args.get(1);
    match subcommand.filter(|_| CONTAINERS.contains(&command)) {
        Some(subcommand) => format!("+{command}|{subcommand}").to_lowercase(),
        None => format!("+{command}").to_lowercase(),
    }
}

/// A rule for each pattern that no other pattern includes.
fn key_rules(required: &[RequiredPermission]) -> Vec<String> {
    // Whether keys of a pattern are written.
    let mut patterns: BTreeMap<&str, bool> = BTreeMap::new();
    for permission in required {
        let writes = !READ_ONLY.contains(&permission.command());
        for kind in &permission.keys {
            *patterns.entry(&kind.pattern).or_default() |= writes;
        }
    }
    let includes = |(outer, outer_writes): (&&str, &bool),
                    (inner, inner_writes): (&&str, &bool)| {
        let prefix = outer.strip_suffix('*');
        outer != inner
            && (*outer_writes || !inner_writes)
            && prefix.is_some_and(|prefix| inner.starts_with(prefix))
    };
    let needed = patterns
        .iter()
        .filter(|inner| !patterns.iter().any(|outer| includes(outer, *inner)));
    let rule = |(pattern, writes): (&&str, &bool)| match writes {
        true => format!("~{pattern}"),
        false => format!("%R~{pattern}"),
    };
    needed.map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::super::key_kinds::KeyKind;
    use super::*;

    #[test]
    fn rules_name_each_command_and_pattern_once() {
        let permission = |line: &str, patterns: &[&str]| RequiredPermission {
            args: line.split(' ').map(str::to_owned).collect(),
            keys: patterns
                .iter()
                .map(|&pattern| KeyKind {
                    example: String::new(),
                    pattern: pattern.to_owned(),
                })
                .collect(),
        };
        let required = [
            permission("PING", &[]),
            permission("XINFO STREAM x:0", &["x:*"]),
            permission("XADD x:0 0-* f v", &["x:*"]),
            permission("HGET x:pos 0", &["x:pos"]),
            permission("HGETALL schema:v1", &["schema:*"]),
            permission("INFO everything", &[]),
        ];
        assert_eq!(
            rules(&required).join(" "),
            "-@all +hget +hgetall +info +ping +xadd +xinfo|stream %R~schema:* ~x:*"
        );
    }
}
