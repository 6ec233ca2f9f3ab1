//! `countd defaults`, `countd completions` and `countd man`: what the binary says about itself.

use crate::cli::args::{Cli, Command};
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use clap::CommandFactory;
use countd::domain::config::DEFAULTS;
use figment::Figment;
use figment::providers::{Format, Toml};
use serde_json::{Value as Json, json};
use std::fs;
use std::io::Write;

/// Runs the command if it is one of these, which need neither a configuration nor a server. Returns whether it is.
///
/// # Errors
/// Stdout or the directory cannot be written.
pub fn run(command: Option<&Command>) -> Result<bool, CommandError> {
    match command {
        Some(Command::Defaults { output }) => print_defaults(*output)?,
        Some(Command::Completions { shell, output }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "countd", &mut script);
            let text = String::from_utf8_lossy(&script);
            output.report(
                &json!({ "shell": shell.to_string(), "script": text }),
                |out| out.write_all(&script),
            )?;
        }
        Some(Command::Man { dir, output }) => {
            let written = fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
            let failed = |error| format!("cannot write to {}: {error}", dir.display());
            written.map_err(|error| CommandError::Unsuccessful(failed(error)))?;
            output.report(
                &json!({ "pages": pages(&Cli::command(), "countd") }),
                |_| Ok(()),
            )?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints the default configuration: with its descriptions, or the settings as JSON.
fn print_defaults(output: Output) -> Result<(), CommandError> {
    let settings = Figment::from(Toml::string(DEFAULTS)).extract::<Json>();
    let settings = settings.map_err(|error| CommandError::Unsuccessful(error.to_string()))?;
    output.report(&settings, |out| out.write_all(DEFAULTS.as_bytes()))?;
    Ok(())
}

/// The names of the manual pages of a command and its subcommands.
fn pages(command: &clap::Command, name: &str) -> Vec<String> {
    let of_subcommands = command.get_subcommands().flat_map(|subcommand| {
        let name = format!("{name}-{}", subcommand.get_name());
        pages(subcommand, &name)
    });
    std::iter::once(format!("{name}.1"))
        .chain(of_subcommands)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let dir = std::env::temp_dir().join(format!("countd-man-{}", std::process::id()));
        let man = |dir: &Path| Command::Man {
            dir: dir.to_owned(),
            output: Output::default(),
        };
        let command = man(&dir);
        assert!(run(Some(&command)).expect("written"));
        let (mut cli, mut script) = (Cli::command(), Vec::new());
        clap_complete::generate(clap_complete::Shell::Bash, &mut cli, "countd", &mut script);
        let script = String::from_utf8(script).expect("text");
        for subcommand in cli.get_subcommands() {
            let name = subcommand.get_name();
            let page = dir.join(format!("countd-{name}.1"));
            assert!(name == "help" || page.exists(), "{name}");
            assert!(script.contains(name), "{name}");
        }
        let files = fs::read_dir(&dir).expect("a directory");
        let names = files.map(|file| file.expect("a file").file_name().into_string());
        let names: BTreeSet<String> = names.map(|name| name.expect("a text")).collect();
        let listed = pages(&Cli::command(), "countd");
        assert_eq!(listed.into_iter().collect::<BTreeSet<String>>(), names);
        let file = dir.join("countd.1");
        let error = run(Some(&man(&file))).expect_err("a file");
        assert!(error.to_string().contains(&file.display().to_string()));
        fs::remove_dir_all(&dir).expect("removed");
        assert!(!run(Some(&Command::Check { json: false })).expect("another command"));
        assert!(!run(None).expect("no command"));
    }
}
