//! The output of commands: progress and errors on stderr, the report on stdout; plain text, or JSON with `--json`.

use super::progress::ProgressLine;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::io::{self, StdoutLock, Write};

/// The options of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Output {
    /// Print progress on stderr and the report on stdout as JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

impl Output {
    /// Shows the progress of a command.
    pub fn progress(self) -> ProgressLine {
        ProgressLine::new(self.json)
    }

    /// Prints the report of a command: an object, or what `print` writes.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn report(
        self,
        report: &impl Serialize,
        print: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string(report)?),
            false => print(&mut out),
        }
    }

    /// Prints on stderr why the command failed.
    pub fn error(self, error: &str) {
        match self.json {
            true => eprintln!("{}", json!({ "error": error })),
            false => eprintln!("countd: {error}"),
        }
    }
}
