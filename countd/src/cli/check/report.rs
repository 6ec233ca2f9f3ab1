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

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    severity: Severity,
    text: String,
    /// The command that repairs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(text: impl Into<String>) -> Finding {
        Finding::of(Severity::Ok, text)
    }

    /// Worth knowing.
    pub fn note(text: impl Into<String>) -> Finding {
        Finding::of(Severity::Note, text)
    }

    /// Something does not work.
    pub fn problem(text: impl Into<String>) -> Finding {
        Finding::of(Severity::Problem, text)
    }

    fn of(severity: Severity, text: impl Into<String>) -> Finding {
        Finding {
            severity,
            text: text.into(),
            repair: None,
        }
    }

    /// Whether something does not work.
    pub fn is_problem(&self) -> bool {
        self.severity == Severity::Problem
    }

    /// With the command that repairs it.
    pub fn repaired_by(self, command: impl Into<String>) -> Finding {
        let repair = Some(command.into());
        Finding { repair, ..self }
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
    /// The same, each followed by the command that repairs it.
    Repairs,
    /// A JSON object for each finding, one per line: `severity`, `text`, and `repair` if there is a command.
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
        match &finding.repair {
            Some(repair) if self.format == Format::Repairs => writeln!(self.out, "    {repair}"),
            _ => Ok(()),
        }
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
        let note = Finding::note("counters of note are objects");
        let findings = [
            Finding::ok("server: ok"),
            note.repaired_by("countd storage migrate note"),
            Finding::problem("schema v1: there is no schema v1"),
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
    fn only_notes_are_marked_and_repairs_follow_what_they_repair() {
        assert_eq!(
            printed(Format::Lines),
            "server: ok\nnote: counters of note are objects\nschema v1: there is no schema v1\n"
        );
        assert_eq!(
            printed(Format::Repairs),
            "server: ok\nnote: counters of note are objects\n    countd storage migrate note\nschema v1: there is no schema v1\n"
        );
        assert_eq!(
            printed(Format::Json).lines().nth(1),
            Some(
                r#"{"severity":"note","text":"counters of note are objects","repair":"countd storage migrate note"}"#
            )
        );
    }
}
