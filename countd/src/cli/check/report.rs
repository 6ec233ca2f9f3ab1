//! What a check finds, and how it is printed.

use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All is well.
    Ok,
    /// Worth knowing. The command succeeds.
    Note,
    /// The command fails.
    Problem,
}

/// What an operator does about a finding: commands that repair it, what to know before, or why no command does. It is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    commands: Vec<String>,
    advice: Option<String>,
}

impl Remedy {
    /// This command repairs it.
    pub fn command(command: impl Into<String>) -> Remedy {
        Remedy {
            commands: vec![command.into()],
            advice: None,
        }
    }

    /// These commands repair it, one after the other. Without any, the advice says what to do.
    pub fn commands(commands: Vec<String>, advice: impl Into<String>) -> Remedy {
        Remedy {
            commands,
            advice: Some(advice.into()),
        }
    }

    /// No command repairs it: why, and what to do instead.
    pub fn advice(advice: impl Into<String>) -> Remedy {
        Remedy::commands(Vec::new(), advice)
    }

    /// With what to know before the command is run.
    pub fn knowing(self, advice: impl Into<String>) -> Remedy {
        let advice = Some(advice.into());
        Remedy { advice, ..self }
    }
}

impl From<String> for Remedy {
    fn from(command: String) -> Remedy {
        Remedy::command(command)
    }
}

impl From<&str> for Remedy {
    fn from(command: &str) -> Remedy {
        Remedy::command(command)
    }
}

/// A finding. All but those without a problem have a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    severity: Severity,
    text: String,
    /// The commands that repair it, one per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<String>,
    /// What to know before, or what to do if there is no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// Where it was made: a test makes one at each place.
    #[cfg(test)]
    #[serde(skip)]
    pub at: &'static std::panic::Location<'static>,
}

impl Finding {
    /// All is well.
    #[cfg_attr(test, track_caller)]
    pub fn ok(text: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Ok,
            text: text.into(),
            repair: None,
            advice: None,
            #[cfg(test)]
            at: std::panic::Location::caller(),
        }
    }

    /// Worth knowing.
    #[cfg_attr(test, track_caller)]
    pub fn note(text: impl Into<String>, remedy: impl Into<Remedy>) -> Finding {
        Finding::of(Severity::Note, text, remedy.into())
    }

    /// Something does not work.
    #[cfg_attr(test, track_caller)]
    pub fn problem(text: impl Into<String>, remedy: impl Into<Remedy>) -> Finding {
        Finding::of(Severity::Problem, text, remedy.into())
    }

    #[cfg_attr(test, track_caller)]
    fn of(severity: Severity, text: impl Into<String>, remedy: Remedy) -> Finding {
        Finding {
            severity,
            text: text.into(),
            repair: (!remedy.commands.is_empty()).then(|| remedy.commands.join("\n")),
            advice: remedy.advice,
            #[cfg(test)]
            at: std::panic::Location::caller(),
        }
    }

    /// Whether something does not work.
    pub fn is_problem(&self) -> bool {
        self.severity == Severity::Problem
    }

    /// What is wrong.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The commands that repair it, and the advice.
    #[cfg(test)]
    pub fn remedy(&self) -> (Vec<&str>, Option<&str>) {
        let commands = self.repair.as_deref().unwrap_or_default().lines();
        (commands.collect(), self.advice.as_deref())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Severity::Note => write!(f, "note: {}", self.text),
            Severity::Ok | Severity::Problem => f.write_str(&self.text),
        }
    }
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each finding.
    Lines,
    /// The same, each followed by the commands that repair it, and by the advice as a comment of a shell.
    Repairs,
    /// A JSON object for each finding, one per line: `severity`, `text`, `repair` if there is a command, and `advice`.
    Json,
}

impl Format {
    /// JSON, or else another format.
    pub fn of(json: bool, otherwise: Format) -> Format {
        if json { Format::Json } else { otherwise }
    }
}

/// Prints findings as they are found.
pub struct Report<W> {
    out: W,
    format: Format,
    /// Why the command fails, if it does.
    failures: Vec<String>,
}

impl<W: Write> Report<W> {
    /// A report without findings.
    pub fn new(out: W, format: Format) -> Report<W> {
        let failures = Vec::new();
        Report {
            out,
            format,
            failures,
        }
    }

    /// Prints a finding.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, finding: &Finding) -> io::Result<()> {
        if self.format == Format::Json {
            // Strings can always be serialized.
            let json = serde_json::to_string(finding).unwrap_or_default();
            return writeln!(self.out, "{json}");
        }
        writeln!(self.out, "{finding}")?;
        if self.format != Format::Repairs {
            return Ok(());
        }
        for command in finding.repair.iter().flat_map(|repair| repair.lines()) {
            writeln!(self.out, "    {command}")?;
        }
        match &finding.advice {
            Some(advice) => writeln!(self.out, "    # {advice}"),
            None => Ok(()),
        }
    }

    /// Prints a finding. The command fails if it is a problem.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_and_fail(&mut self, finding: &Finding) -> io::Result<()> {
        if finding.is_problem() {
            self.fail(finding.text());
        }
        self.add(finding)
    }

    /// Takes note that the command fails.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.failures.push(reason.into());
    }

    /// Why the command fails, if it does.
    pub fn failure(self) -> Option<String> {
        (!self.failures.is_empty()).then(|| self.failures.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format) -> String {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, format);
        let findings = [
            Finding::ok("server: ok"),
            Finding::note(
                "counters of note are objects",
                "countd storage migrate note",
            ),
            Finding::problem("relay: no answer", Remedy::advice("start the database")),
        ];
        for finding in &findings {
            report.add(finding).expect("a Vec takes everything");
        }
        report.fail("1 schemas cannot be used");
        assert_eq!(
            report.failure().expect("a reason"),
            "1 schemas cannot be used"
        );
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn only_notes_are_marked_and_remedies_follow_what_they_repair() {
        assert_eq!(
            printed(Format::Lines),
            "server: ok\nnote: counters of note are objects\nrelay: no answer\n"
        );
        assert_eq!(
            printed(Format::Repairs),
            "server: ok\nnote: counters of note are objects\n    countd storage migrate note\nrelay: no answer\n    # start the database\n"
        );
        assert_eq!(
            printed(Format::Json),
            concat!(
                r#"{"severity":"ok","text":"server: ok"}"#,
                "\n",
                r#"{"severity":"note","text":"counters of note are objects","repair":"countd storage migrate note"}"#,
                "\n",
                r#"{"severity":"problem","text":"relay: no answer","advice":"start the database"}"#,
                "\n"
            )
        );
    }
}
