//! Cargo.lock follows deny.toml: licences, versions and sources. cargo-deny checks the same and, with a network,
//! advisories.

use countint_tests::env;
use serde_json::Value as Json;
use spdx::{Expression, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Every package that Cargo.lock names, as `cargo metadata` describes it. Cargo downloads those that no build here has needed, such as those for
/// other systems.
fn packages() -> Vec<Json> {
    let output = env::cargo("metadata")
        .args(["--locked", "--format-version", "1"])
        .output()
        .expect("cargo can be run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {text}");
    let metadata: Json = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("it lists packages");
    assert!(packages.len() > 50, "all packages of Cargo.lock");
    packages.clone()
}

fn policy() -> toml::Table {
    let text = fs::read_to_string(env::workspace().join("deny.toml")).expect("there is a policy");
    text.parse().expect("deny.toml is TOML")
}

fn texts(list: &toml::Value) -> BTreeSet<String> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|text| text.as_str().expect("a list of strings").to_owned())
        .collect()
}

fn name(package: &Json) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("{}@{}", text("name"), text("version"))
}

/// Whether an SPDX expression can be satisfied with these licences. Older crates write `MIT/Apache-2.0`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX)
        .unwrap_or_else(|why| panic!("{expression}: {why}"));
    parsed.evaluate(|requirement| allowed.contains(&requirement.to_string()))
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = texts(&policy()["licenses"]["allow"]);
    let mut refused: Vec<String> = Vec::new();
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_allowed(licence, &allowed) {
            refused.push(format!("{}: {licence}", name(&package)));
        }
    }
    assert!(
        refused.is_empty(),
        "licences that deny.toml does not allow: {refused:#?}"
    );
    assert!(!is_allowed("GPL-3.0-only", &allowed));
    assert!(is_allowed("MIT OR GPL-3.0-only", &allowed));
    assert!(!is_allowed("MIT AND GPL-3.0-only", &allowed));
}

#[test]
fn every_dependency_comes_from_an_allowed_registry() {
    let allowed = texts(&policy()["sources"]["allow-registry"]);
    for package in packages() {
        // A package of the workspace has no source.
        let Some(source) = package["source"].as_str() else {
            continue;
        };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        assert!(
            allowed.contains(registry),
            "{} comes from {source}",
            name(&package)
        );
    }
}

#[test]
fn duplicate_dependency_versions_are_listed_with_a_reason() {
    let policy = policy();
    let skip = policy["bans"]["skip"].as_array().expect("a list");
    let skipped: BTreeSet<String> = skip
        .iter()
        .map(|entry| {
            let reason = entry["reason"].as_str().unwrap_or_default();
            assert!(!reason.is_empty(), "a reason for {entry}");
            entry["crate"].as_str().expect("a crate").to_owned()
        })
        .collect();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let crate_name = package["name"].as_str().expect("a name").to_owned();
        versions
            .entry(crate_name)
            .or_default()
            .insert(name(&package));
    }
    let all: BTreeSet<&String> = versions.values().flatten().collect();
    let stale: Vec<_> = skipped.iter().filter(|it| !all.contains(it)).collect();
    assert!(stale.is_empty(), "not in Cargo.lock: {stale:?}");
    for versions in versions.values() {
        let kept = versions.iter().filter(|it| !skipped.contains(*it)).count();
        assert!(kept <= 1, "several versions: {versions:?}");
    }
}
