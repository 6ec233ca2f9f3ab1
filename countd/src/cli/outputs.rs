//! How each command prints its report. No match has a wildcard: a new command must say it.

use super::args::{
    ArchiveCommand, Command, DeadCommand, HotCommand, LogCommand, RebuildCommand, ReconcileCommand,
    ReverseCommand, SchemaCommand, StorageCommand,
};
use super::output::Output;
use super::top::TopCommand;

impl Command {
    /// How the command prints its report, and why it failed.
    pub fn output(&self) -> Output {
        match self {
            // What these print is the log.
            Command::All | Command::Serve | Command::Consume | Command::Relay => Output::default(),
            Command::Schema(command) => command.output(),
            Command::Dead(command) => command.output(),
            Command::Log(command) => command.output(),
            Command::Storage(command) => command.output(),
            Command::Hot(command) => command.output(),
            Command::Reverse(command) => command.output(),
            Command::Archive(command) => command.output(),
            Command::Import(command) => command.output(),
            Command::Reconcile(ReconcileCommand { output, .. })
            | Command::Rebuild(RebuildCommand { output, .. })
            | Command::Restore { output, .. }
            | Command::Acl { output, .. }
            | Command::Defaults { output }
            | Command::Completions { output, .. }
            | Command::Man { output, .. } => *output,
            Command::Sink { json, .. } | Command::Check { json } | Command::Doctor { json } => {
                Output { json: *json }
            }
            Command::Top(TopCommand { json, .. }) => Output { json: *json },
            Command::Size(command) => Output { json: command.json },
        }
    }
}

impl SchemaCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            SchemaCommand::Set { output, .. }
            | SchemaCommand::Get { output, .. }
            | SchemaCommand::List { output }
            | SchemaCommand::Extend { output, .. } => *output,
            SchemaCommand::Migrate(command) => command.output,
        }
    }
}

impl DeadCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            DeadCommand::List { json } => Output { json: *json },
            DeadCommand::Retry { output, .. } | DeadCommand::Drop { output, .. } => *output,
        }
    }
}

impl LogCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            LogCommand::List { json } => Output { json: *json },
            LogCommand::Reset { output, .. } | LogCommand::AcceptTopic { output, .. } => *output,
        }
    }
}

impl ArchiveCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            ArchiveCommand::List { output, .. }
            | ArchiveCommand::Verify { output, .. }
            | ArchiveCommand::Baseline { output, .. }
            | ArchiveCommand::Prune { output, .. }
            | ArchiveCommand::AcceptLoss { output }
            | ArchiveCommand::End { output } => *output,
        }
    }
}

impl StorageCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            StorageCommand::Migrate { output, .. } | StorageCommand::Adopt { output, .. } => {
                *output
            }
        }
    }
}

impl HotCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            HotCommand::Split { output, .. }
            | HotCommand::Merge { output, .. }
            | HotCommand::List { output } => *output,
        }
    }
}

impl ReverseCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        let ReverseCommand::Backfill { output, .. } = self;
        *output
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::Cli;
    use clap::{CommandFactory, Parser};

    /// The commands without subcommands, such as `schema get`.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, bool)>) {
        for subcommand in command.get_subcommands() {
            let path = format!("{path} {}", subcommand.get_name());
            match subcommand.has_subcommands() {
                true => leaves(subcommand, &path, found),
                false => {
                    let mut arguments = subcommand.get_arguments();
                    let has_json = arguments.any(|one| one.get_long() == Some("json"));
                    found.push((path.trim_start().to_owned(), has_json));
                }
            }
        }
    }

    #[test]
    fn every_command_that_prints_a_report_can_print_json() {
        let mut all = Vec::new();
        leaves(&Cli::command(), "", &mut all);
        let without = all.iter().filter(|(_, has_json)| !has_json);
        let without: Vec<&str> = without.map(|(path, _)| path.as_str()).collect();
        assert_eq!(without, ["all", "serve", "consume", "relay"]);
        // `--json` is also what says how a failure is printed.
        let mut parsed = Vec::new();
        for line in [
            "sink --end",
            "schema set v1 a",
            "schema get v1",
            "schema list",
            "schema extend v1 a",
            "schema migrate v1 v2",
            "dead list",
            "dead retry --all",
            "dead drop --all",
            "log list",
            "log reset 1 --uncounted all",
            "log accept-topic",
            "storage migrate note",
            "storage adopt",
            "hot split note:7",
            "hot merge note:7",
            "hot list",
            "reverse backfill like",
            "reconcile --all",
            "rebuild --from earliest",
            "archive list",
            "archive verify",
            "archive baseline",
            "archive prune --before 2026-01-01",
            "archive accept-loss",
            "archive end",
            "restore",
            "import facts --job a a.csv",
            "import counts --job a a.csv",
            "import authors --job a a.csv",
            "import forget a",
            "check",
            "doctor",
            "top",
            "acl",
            "size --entities 1 --actions 1 --reads 1",
            "defaults",
            "completions bash",
            "man dir",
        ] {
            let command = |line: &str| {
                let cli = Cli::try_parse_from(line.split(' '));
                cli.expect(line).command.expect("a command")
            };
            let line = format!("countd {line}");
            assert!(!command(&line).output().json, "{line}");
            assert!(command(&format!("{line} --json")).output().json, "{line}");
            parsed.push(line);
        }
        let with_json = all.iter().filter(|(_, has_json)| *has_json);
        for (path, _) in with_json {
            let path = format!("countd {path}");
            let is_of_path = |line: &String| *line == path || line.starts_with(&format!("{path} "));
            assert!(parsed.iter().any(is_of_path), "{path}");
        }
    }

    #[test]
    fn a_sink_that_runs_prints_no_report() {
        assert!(Cli::try_parse_from(["countd", "sink", "--json"]).is_err());
    }
}
