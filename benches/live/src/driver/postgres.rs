//! A PostgreSQL server.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::driver::database::{
    Database, DatabaseProcess, client_program, create_files, create_home, server_program,
};
use crate::driver::programs::printed;
use crate::driver::server::{Workdir, free_port};
use crate::error::Result;

/// The package with all programs.
const PACKAGE: &str = "postgresql";

/// A running server with the database `postgres` and a user of the same name.
pub struct Postgres {
    port: u16,
    process: DatabaseProcess,
}

impl Postgres {
    /// Creates the files of a server and starts it.
    pub fn start(dir: &Workdir) -> Result<Postgres> {
        let (home, port) = (create_home(dir, "postgres")?, free_port()?);
        let data = home.join("data");
        let mut create = server_program("initdb", PACKAGE)?;
        create.args(["--username=postgres", "--auth=trust", "--encoding=UTF8"]);
        create.arg("-D").arg(&data);
        create_files(create, &home)?;
        let mut server = server_program("postgres", PACKAGE)?;
        server.arg("-D").arg(&data).arg("-k").arg(&home);
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        server.current_dir(&home);
        // Its other processes end with it.
        let signal = Signal::SIGQUIT;
        let process = DatabaseProcess::start(server, dir.file("postgres.log"), signal)?;
        let server = Postgres { port, process };
        server.process.wait_for(&server)?;
        Ok(server)
    }
}

impl Database for Postgres {
    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn repeat(&self, statement: &Path, connections: usize, time: Duration) -> Result<f64> {
        let mut client = client_program("pgbench", PACKAGE)?;
        client.args(["--no-vacuum", "--client", &connections.to_string()]);
        client.args(["--time", &time.as_secs().max(1).to_string()]);
        client.arg("--file").arg(statement).arg(self.url());
        let printed = printed(client.output()?)?;
        let rate = printed.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|rate| rate.split(' ').next()?.parse().ok());
        rate.ok_or_else(|| format!("pgbench printed no rate: {printed}").into())
    }

    fn run(&self, sql: &str) -> Result<String> {
        let mut client = client_program("psql", PACKAGE)?;
        client.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()]);
        Ok(printed(client.output()?)?.trim().to_owned())
    }
}
