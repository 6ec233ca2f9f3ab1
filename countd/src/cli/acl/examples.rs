//! Examples of required permissions: the declared commands, with an example of each kind of key.

use super::key_kinds::{KeyKind, KeyKinds};
use countd::redis::permissions::{Permissions, kind_of_key};
use std::collections::BTreeSet;

/// A command with example arguments that the user must be allowed to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    /// The command and its arguments.
    pub args: Vec<String>,
    /// Its keys.
    pub keys: Vec<KeyKind>,
}

impl RequiredPermission {
    /// The name of the command.
    pub fn command(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// The first key.
    pub fn key(&self) -> Option<&str> {
        self.keys.first().map(|kind| kind.example.as_str())
    }
}

/// Replaces the kinds of keys in declarations by examples. Each command appears once.
pub fn resolve(declared: &[(KeyKinds, Permissions)]) -> Vec<RequiredPermission> {
    let mut required: Vec<RequiredPermission> = Vec::new();
    let mut seen = BTreeSet::new();
    for (kinds, permissions) in declared {
        for line in permissions.lines() {
            for permission in examples(line, kinds) {
                if seen.insert(permission.args.clone()) {
                    required.push(permission);
                }
            }
        }
    }
    required
}

/// A declaration with each combination of examples of its keys. Empty if the configuration does not use one of its kinds of keys.
fn examples(line: &str, kinds: &KeyKinds) -> Vec<RequiredPermission> {
    let mut permissions = vec![RequiredPermission {
        args: Vec::new(),
        keys: Vec::new(),
    }];
    for word in line.split(' ') {
        let Some(name) = kind_of_key(word) else {
            permissions
                .iter_mut()
                .for_each(|permission| permission.args.push(word.to_owned()));
            continue;
        };
        let extended = permissions.iter().flat_map(|permission| {
            kinds.named(name).map(|kind| {
                let mut permission = permission.clone();
                permission.args.push(kind.example.clone());
                permission.keys.push(kind.clone());
                permission
            })
        });
        permissions = extended.collect();
    }
    permissions
}
