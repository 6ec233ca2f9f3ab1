//! Runs the command lines of documentation pages, by a shell and by `redis-cli`.

use crate::{env, env::TempDir};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command line and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line of the command in its page.
    pub line: usize,
    /// The command.
    pub command: String,
    /// The expected output; may be empty.
    pub printed: String,
}

/// Parses the lines of a block marked `console`: `$ command`, then its output.
///
/// # Errors
/// The number of a line before the first command.
pub fn parse<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (line, text) in lines {
        if let Some(command) = text.strip_prefix("$ ") {
            entries.push(Entry {
                line,
                command: command.to_owned(),
                printed: String::new(),
            });
            continue;
        }
        let last = entries
            .last_mut()
            .ok_or_else(|| format!("{line}: output without a command: {text}"))?;
        if !last.printed.is_empty() {
            last.printed.push('\n');
        }
        last.printed.push_str(text);
    }
    Ok(entries)
}

/// A shell in the root of the repository, whose `redis-cli` connects to a given port.
pub struct Console {
    dir: TempDir,
}

/// Marks the end of the output of a command in [`Console::run`].
const END: &str = "-- end of output --";

impl Console {
    /// A shell for the server on this port.
    ///
    /// # Panics
    /// When the directory for temporary files is not writable.
    pub fn new(port: u16) -> Console {
        let dir = TempDir::new();
        let cli = dir.path().join("redis-cli");
        // redis-cli prints `(integer) 1` to a terminal and `1` to a pipe. Here a file replaces the terminal. The PATH in
        // the script does not contain the script itself.
        let script = format!(
            "#!/bin/sh\n[ -p /dev/stdout ] || set -- --no-raw \"$@\"\nPATH='{}'\nexec '{}' -p {port} \"$@\"\n",
            std::env::var("PATH").unwrap_or_default(),
            env::cli().display()
        );
        fs::write(&cli, script).expect("the directory for temporary files is writable");
        executable(&cli);
        Console { dir }
    }

    /// Runs commands in one shell. Returns the output of each.
    ///
    /// # Panics
    /// When the shell cannot be started.
    pub fn run(&self, commands: &[&str]) -> Vec<String> {
        let script: Vec<String> = commands
            .iter()
            .map(|command| format!("{command}\necho; echo '{END}'"))
            .collect();
        let printed = self.output(Command::new("sh").arg("-c").arg(script.join("\n")), "");
        let mut outputs: Vec<String> = printed
            .split(&format!("{END}\n"))
            .map(|output| output.trim_end_matches('\n').to_owned())
            .collect();
        outputs.truncate(commands.len());
        outputs
    }

    /// The output of `redis-cli` for a line of input.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn type_into_cli(&self, line: &str, resp3: bool) -> String {
        let mut cli = Command::new(self.dir.path().join("redis-cli"));
        if resp3 {
            cli.arg("-3");
        }
        let printed = self.output(&mut cli, &format!("{line}\n"));
        printed.trim_end_matches('\n').to_owned()
    }

    /// Runs a command with its output redirected to a file, and returns the output.
    fn output(&self, command: &mut Command, input: &str) -> String {
        let path = self.dir.path().join("output");
        let file = File::create(&path).expect("the directory for temporary files is writable");
        let errors = file.try_clone().expect("a file handle can be duplicated");
        let path_variable = std::env::var_os("PATH").unwrap_or_default();
        let mut directories = vec![self.dir.path().to_owned()];
        directories.extend(std::env::split_paths(&path_variable));
        let mut child = command
            .current_dir(env::workspace())
            .env(
                "PATH",
                std::env::join_paths(directories).expect("directories of a PATH"),
            )
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .expect("a command of a page starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A command that does not read its input may have ended.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait().expect("the child can be waited for");
        String::from_utf8_lossy(&fs::read(&path).expect("the output is there")).into_owned()
    }
}

/// Makes a file executable.
///
/// # Panics
/// When its permissions cannot be changed.
pub fn executable(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("the test owns the file");
}
