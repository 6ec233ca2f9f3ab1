//! The commands of docs/countd/procedures.md, on real servers.

mod countd;
mod migration;
mod redis;
mod takeover;

use crate::support::{Countd, Settings, environment};
use countint_tests::env::{self, TempDir, workspace};
use countint_tests::{Server, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The commands of a procedure, a line each, without comments.
#[track_caller]
pub fn commands(heading: &str) -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/countd/procedures.md")).expect("a page");
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("the page has no procedure {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let (mut commands, mut is_shell) = (Vec::new(), false);
    for line in section.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell {
            commands.push(line.to_owned());
        }
    }
    assert!(!commands.is_empty(), "{heading} has no commands");
    commands
}

/// A shell for the commands of a page. `countd` and `redis-cli` reach the servers of the test by the names of the page.
pub struct Shell {
    dir: TempDir,
    config: String,
    /// The server of commands that name none.
    port: u16,
    /// What stands on the page, and in the test.
    replaced: Vec<(&'static str, String)>,
}

impl Shell {
    /// A shell in which these names are servers. Commands that name none use the first one.
    pub fn new(config: &str, servers: &[(&'static str, &Server)]) -> Shell {
        let shell = Shell {
            dir: TempDir::new(),
            config: config.to_owned(),
            port: servers[0].1.port(),
            replaced: Vec::new(),
        };
        let file = shell.dir.path().join("countd.toml");
        fs::write(&file, config).expect("the test's directory is writable");
        let (program, file) = (env!("CARGO_BIN_EXE_countd"), file.display());
        shell.add("countd", &format!("exec {program} --config {file} \"$@\""));
        shell.add("redis-cli", &shell.redis_cli(servers));
        shell
    }

    /// The same with a text of the page replaced.
    pub fn replace(mut self, on_page: &'static str, in_test: impl Into<String>) -> Shell {
        self.replaced.push((on_page, in_test.into()));
        self
    }

    /// A script that replaces names of servers by ports: `-h NAME`, `NAME:6379` and `NAME 6379`.
    fn redis_cli(&self, servers: &[(&'static str, &Server)]) -> String {
        let port_of = |(name, server): &(&str, &Server)| format!("[{name}]={} ", server.port());
        let ports: String = servers.iter().map(port_of).collect();
        // With the original PATH, because `env::cli` may be a name, and this is a program with the same name.
        let path = std::env::var("PATH").unwrap_or_default();
        let (default, program) = (self.port, env::cli());
        let program = program.display();
        format!(
            r#"declare -A ports=({ports})
port={default} args=()
while (($#)); do
    if [[ $1 == -h ]]; then
        port=${{ports[$2]:?}}
        shift
    elif [[ $1 == *:6379 ]]; then
        args+=("127.0.0.1:${{ports[${{1%:6379}}]:?}}")
    elif [[ ${{2:-}} == 6379 ]]; then
        args+=(127.0.0.1 "${{ports[$1]:?}}")
        shift
    else
        args+=("$1")
    fi
    shift
done
exec env PATH='{path}' '{program}' -p "$port" "${{args[@]}}""#
        )
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.dir.path().join(name);
        let text = format!("#!/usr/bin/env bash\n{script}\n");
        fs::write(&path, text).expect("the test's directory is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is executable");
    }

    /// Runs a command of the page, which must succeed. Returns its output.
    #[track_caller]
    pub fn run(&self, command: &str) -> String {
        let (has_succeeded, printed) = self.try_run(command);
        assert!(has_succeeded, "{command}:\n{printed}");
        printed
    }

    /// Runs a command of the page. Returns whether it succeeds, and its output.
    pub fn try_run(&self, command: &str) -> (bool, String) {
        let mut text = command.to_owned();
        for (on_page, in_test) in &self.replaced {
            text = text.replace(on_page, in_test);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let url = format!("redis://127.0.0.1:{}/", self.port);
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &text])
            .current_dir(self.dir.path())
            .env("PATH", format!("{}:{path}", self.dir.path().display()))
            .envs(environment(url, &self.config))
            .output()
            .expect("bash runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        (output.status.success(), printed)
    }
}

/// Starts or restarts a process of countd, as systemd does.
pub fn systemctl(action: &str, countd: &mut Countd) {
    match action {
        "stop" => countd.stop(),
        "start" => countd.launch(),
        "restart" => {
            countd.stop();
            countd.launch();
        }
        _ => panic!("the test cannot {action} countd"),
    }
}

/// Waits until a process is ready: `until curl ... /readyz`.
pub fn wait_until_ready(countd: &Countd) {
    let api = countd.api();
    wait_until("it is ready", || {
        api.try_get("/readyz")
            .is_ok_and(|(status, _)| status == 200)
    });
}

/// Starts `countd all` with this configuration.
pub fn start_all(server: &Server, config: &str) -> Countd {
    let command = "all";
    Countd::with(server, &Settings { command, config })
}
