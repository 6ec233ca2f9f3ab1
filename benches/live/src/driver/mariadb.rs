//! A MariaDB server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::driver::database::{
    Database, DatabaseProcess, client_program, create_files, create_home, server_program,
};
use crate::driver::programs::printed;
use crate::driver::server::{Workdir, free_port};
use crate::error::Result;

/// The package that has the server and depends on that of the clients.
const PACKAGE: &str = "mariadb-server";
/// Statements of each connection that are executed to learn how many there are in a second.
const WARM_UP: usize = 100;
/// The statements that the server executes at its start, one a line.
const USERS: &str =
    "CREATE DATABASE bench;\nCREATE USER bench@'%';\nGRANT ALL ON bench.* TO bench@'%';\n";

/// A running server with the database `bench` and a user of the same name.
pub struct MariaDb {
    port: u16,
    process: DatabaseProcess,
}

impl MariaDb {
    /// Creates the files of a server and starts it.
    pub fn start(dir: &Workdir) -> Result<MariaDb> {
        let (home, port) = (create_home(dir, "mariadb")?, free_port()?);
        let users = dir.file("users.sql");
        fs::write(&users, USERS)?;
        let option = |name: &str, file: &Path| format!("--{name}={}", file.display());
        let files = [
            option("datadir", &home.join("data")),
            option("tmpdir", &home),
        ];
        let mut create = server_program("mariadb-install-db", PACKAGE)?;
        create
            .args(["--no-defaults", "--skip-test-db"])
            .args(&files);
        create_files(create, &home)?;
        let mut server = server_program("mariadbd", PACKAGE)?;
        server.args(["--no-defaults", "--bind-address=127.0.0.1"]);
        server.arg(format!("--port={port}")).args(&files);
        server.arg(option("socket", &home.join("socket")));
        server.arg(option("pid-file", &home.join("pid")));
        server.arg(option("init-file", &users));
        server.current_dir(&home);
        let signal = Signal::SIGKILL;
        let process = DatabaseProcess::start(server, dir.file("mariadb.log"), signal)?;
        let server = MariaDb { port, process };
        server.process.wait_for(&server)?;
        Ok(server)
    }

    fn client(&self, name: &str) -> Result<Command> {
        let mut client = client_program(name, PACKAGE)?;
        client.args(["--no-defaults", "--host=127.0.0.1", "--user=bench"]);
        client.arg(format!("--port={}", self.port));
        Ok(client)
    }

    /// Repeats a statement this number of times over each connection. Returns statements per second.
    fn repeat_each(&self, statement: &Path, connections: usize, times: usize) -> Result<f64> {
        let statements = times * connections;
        let mut client = self.client("mariadb-slap")?;
        client.arg(format!("--concurrency={connections}"));
        client.arg(format!("--number-of-queries={statements}"));
        client.args(["--create-schema=bench", "--csv"]);
        let query = format!("--query={}", statement.display());
        let printed = printed(client.arg(query).output()?)?;
        let seconds = seconds(&printed);
        let seconds = seconds.ok_or_else(|| format!("mariadb-slap printed no time: {printed}"))?;
        Ok(statements as f64 / seconds)
    }
}

impl Database for MariaDb {
    fn url(&self) -> String {
        format!("mysql://bench@127.0.0.1:{}/bench", self.port)
    }

    fn repeat(&self, statement: &Path, connections: usize, time: Duration) -> Result<f64> {
        // mariadb-slap ends after a number of statements, not after a time.
        let rate = self.repeat_each(statement, connections, WARM_UP)?;
        let times = rate * time.as_secs_f64() / connections as f64;
        self.repeat_each(statement, connections, times.ceil() as usize)
    }

    fn run(&self, sql: &str) -> Result<String> {
        let mut client = self.client("mariadb")?;
        client.args(["--batch", "--skip-column-names", "--execute", sql, "bench"]);
        Ok(printed(client.output()?)?.trim().to_owned())
    }
}

/// The time of a run that `mariadb-slap --csv` prints: the engine, the type of the load, the mean, minimum and maximum of the seconds, the
/// connections, and the statements of each.
fn seconds(printed: &str) -> Option<f64> {
    let columns: Vec<&str> = printed.trim().split(',').collect();
    let [_, _, mean, _, _, _, _] = columns[..] else {
        return None;
    };
    mean.parse().ok().filter(|seconds| *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_time_is_read() {
        assert_eq!(seconds(",mixed,1.376,1.376,1.376,16,1250\n"), Some(1.376));
        assert_eq!(seconds(",mixed,0.000,0.000,0.000,16,1\n"), None, "no rate");
        assert_eq!(seconds("mariadb-slap: Error when connecting"), None);
    }
}
