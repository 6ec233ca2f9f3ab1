//! What countd's user of Redis has to be allowed. It is asked at the start: what is missing would otherwise show when somebody
//! needs it. (Nothing would be lost: scripts look before their first write, see `lua/may.lua`.)

mod lines;
mod needs;

use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::redis::script::LoadedScript;
use countd::redis::store::Store;
use needs::{Need, needs};
use redis::RedisError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

static RIGHTS: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../../lua/rights.lua").to_owned()));

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// It takes actions and answers questions.
    pub serves: bool,
    /// It counts the log.
    pub consumes: bool,
}

/// Checks that the user of Redis may do what a process does, on each node.
///
/// # Errors
/// [`ConnectError::Rights`] says what he may not do. Or the server cannot be asked.
pub async fn check(store: &Store, config: &Config, roles: Roles) -> Result<(), ConnectError> {
    let needs = needs(config, store.keys(), store.backend(), roles);
    let mut call = redis::cmd("EVALSHA");
    call.arg(RIGHTS.script.get_hash()).arg(0);
    for need in &needs {
        call.arg(need.words.len()).arg(&need.words);
    }
    let servers = store.servers().map_err(|why| match why {
        countd::domain::error::StoreError::Unavailable(why)
        | countd::domain::error::StoreError::Refused(why) => why,
        why => RedisError::from(std::io::Error::other(why.to_string())),
    })?;
    for mut server in servers {
        RIGHTS.script.load_async(&mut server).await?;
        let may: Vec<u8> = call.query_async(&mut server).await?;
        let problems = problems(&needs, &may);
        if !problems.is_empty() {
            return Err(ConnectError::Rights(problems.join("; ")));
        }
    }
    Ok(())
}

/// What is missing, in few words: a command on all keys, or all commands on a key, where that is it.
fn problems(needs: &[Need], may: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let all = needs.iter().zip(may);
    let unknown: BTreeSet<&str> = all
        .clone()
        .filter(|(_, may)| **may == 2)
        .map(|(need, _)| need.command())
        .collect();
    found.extend(
        unknown
            .iter()
            .map(|command| format!("the server has no {command}")),
    );
    let mut missing: Vec<&Need> = all
        .clone()
        .filter(|(_, may)| **may == 0)
        .map(|(need, _)| need)
        .collect();
    let allowed: Vec<&Need> = all
        .filter(|(_, may)| **may == 1)
        .map(|(need, _)| need)
        .collect();
    // The reason that explains most, then the next one.
    loop {
        let mut reasons: BTreeMap<Reason<'_>, usize> = BTreeMap::new();
        for need in &missing {
            for reason in Reason::of(need) {
                if !allowed.iter().any(|need| reason.covers(need)) {
                    *reasons.entry(reason).or_default() += 1;
                }
            }
        }
        let Some((reason, _)) = reasons.into_iter().max_by_key(|(_, count)| *count) else {
            break;
        };
        missing.retain(|need| !reason.covers(need));
        found.push(reason.to_string());
    }
    found.extend(missing.iter().map(|need| match &need.key {
        Some(key) => format!("{} on keys such as {key}", need.command()),
        None => need.command().to_owned(),
    }));
    found
}

/// Why something may not be done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason<'a> {
    /// Nothing may be done with such a key.
    Key(&'a str),
    /// The command may not be run.
    Command(&'a str),
}

impl<'a> Reason<'a> {
    fn of(need: &'a Need) -> impl Iterator<Item = Reason<'a>> {
        let key = need.key.as_deref().map(Reason::Key);
        key.into_iter().chain([Reason::Command(need.command())])
    }

    fn covers(&self, need: &Need) -> bool {
        match self {
            Reason::Key(key) => need.key.as_deref() == Some(key),
            Reason::Command(command) => need.command() == *command,
        }
    }
}

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Key(key) => write!(to, "keys such as {key}"),
            Reason::Command(command) => to.write_str(command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(line: &str) -> Need {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let key = words.get(1).cloned();
        Need { words, key }
    }

    #[test]
    fn what_is_missing_is_said_in_few_words() {
        let needs = ["HGET a", "HSET a", "HGET b", "HSET b", "PING", "DEL a"].map(need);
        let said = |may: [u8; 6]| problems(&needs, &may).join("; ");
        assert_eq!(said([1, 1, 1, 1, 1, 1]), "");
        assert_eq!(said([1, 0, 1, 0, 1, 1]), "HSET");
        assert_eq!(said([1, 1, 0, 0, 1, 1]), "keys such as b");
        assert_eq!(said([1, 0, 1, 1, 1, 1]), "HSET on keys such as a");
        assert_eq!(
            said([1, 1, 0, 0, 0, 2]),
            "the server has no DEL; keys such as b; PING"
        );
    }
}
