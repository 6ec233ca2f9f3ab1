//! Sets `COUNTD_REVISION`, the revision of the sources in `countd_build_info`: that of the environment or, in release builds, of Git. Debug builds
//! do not ask Git, because each commit would build everything again.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=COUNTD_REVISION");
    let given = std::env::var("COUNTD_REVISION")
        .ok()
        .filter(|text| !text.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let revision = given.or_else(|| if is_release { of_git() } else { None });
    let revision = revision.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=COUNTD_REVISION={revision}");
}

/// The commit that is checked out. `None` without Git, as in an archive of the sources.
fn of_git() -> Option<String> {
    // A commit adds a line to this file, wherever the branch is.
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
