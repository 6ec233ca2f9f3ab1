//! `countd size`: how many machines a load needs. It needs no server.

mod args;
mod number;
#[cfg(test)]
mod page;
mod text;

pub use args::SizeCommand;

use crate::cli::error::CommandError;
use countd::domain::sizing::{Figures, plan};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Runs `countd size`.
///
/// # Errors
/// The file of figures cannot be used, no cluster is large enough for the load, or stdout cannot be written.
pub fn run(command: &SizeCommand) -> Result<(), CommandError> {
    let text = output(command)?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// What `countd size` prints.
fn output(command: &SizeCommand) -> Result<String, CommandError> {
    output_from(&figures(command.figures.as_deref())?, command)
}

/// What `countd size` prints with these figures.
fn output_from(figures: &Figures, command: &SizeCommand) -> Result<String, CommandError> {
    let (workload, machines) = (command.workload(), command.machines());
    let plan = plan(figures, &workload, &machines, command.fixed()).map_err(failed)?;
    if !command.json {
        return Ok(text::render(&workload, &machines, &plan));
    }
    let all = serde_json::json!({"workload": workload, "machines": machines, "plan": plan});
    Ok(serde_json::to_string_pretty(&all).map_err(failed)? + "\n")
}

/// The figures of a file, or those of this version.
fn figures(file: Option<&Path>) -> Result<Figures, CommandError> {
    let Some(file) = file else {
        return Figures::embedded().map_err(failed);
    };
    let unread = |error| failed(format!("cannot read {}: {error}", file.display()));
    Figures::parse(&fs::read_to_string(file).map_err(unread)?).map_err(failed)
}

fn failed(error: impl ToString) -> CommandError {
    CommandError::Unsuccessful(error.to_string())
}
