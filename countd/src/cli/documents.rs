//! `countd defaults`, `countd completions` and `countd man`: what the binary says about itself.

use crate::cli::args::{Cli, Command};
use crate::cli::error::CommandError;
use clap::CommandFactory;
use countd::domain::config::DEFAULTS;
use std::fs;
use std::io::{self, Write};

/// Runs the command if it is one of these, which need neither a configuration nor a server. Returns whether it is.
///
/// # Errors
/// Stdout or the directory cannot be written.
pub fn run(command: Option<&Command>) -> Result<bool, CommandError> {
    match command {
        Some(Command::Defaults) => io::stdout().write_all(DEFAULTS.as_bytes())?,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "countd", &mut script);
            io::stdout().write_all(&script)?;
        }
        Some(Command::Man { dir }) => {
            let written = fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
            let failed = |error| format!("cannot write to {}: {error}", dir.display());
            written.map_err(|error| CommandError::Unsuccessful(failed(error)))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let dir = std::env::temp_dir().join(format!("countd-man-{}", std::process::id()));
        let command = Command::Man { dir: dir.clone() };
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
        assert!(dir.join("countd.1").exists());
        let file = dir.join("countd.1");
        let error = run(Some(&Command::Man { dir: file.clone() })).expect_err("a file");
        assert!(error.to_string().contains(&file.display().to_string()));
        fs::remove_dir_all(&dir).expect("removed");
        assert!(!run(Some(&Command::Check { json: false })).expect("another command"));
        assert!(!run(None).expect("no command"));
    }
}
