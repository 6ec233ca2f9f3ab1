//! A server process of a test.

use crate::builder::{Builder, ModuleFile};
use crate::client::{self, Client, RawSocket};
use crate::env::{self, TempDir, deadline};
use crate::reply;
use crate::wait::wait_until;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// The product and version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whether it is Valkey, not Redis.
    pub valkey: bool,
    /// The major and the minor version.
    pub number: (u32, u32),
}

/// A running server. On drop it is killed and its directory is removed.
pub struct Server {
    process: Option<Child>,
    port: u16,
    dir: TempDir,
    settings: Builder,
    /// The other nodes of a cluster that is used as one server.
    others: Vec<Server>,
}

impl Server {
    /// Starts a server with the module, without persistence and without replicas.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// The settings of a new server.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Starts a replica of this server, with the same module, and waits until it is in sync.
    pub fn replica(&self) -> Server {
        let builder = Server::builder().replica_of(self);
        match self.settings.module {
            ModuleFile::None => builder.no_module().start(),
            ModuleFile::Release => builder.start(),
            ModuleFile::Faults => builder.faults().start(),
        }
    }

    /// The nodes of a cluster as one server: they are configured, stopped and started together, and clients find the node of a key. What is said
    /// of a process, its files and its port holds for the first one.
    pub(crate) fn of_nodes(nodes: Vec<Server>) -> Server {
        let mut nodes = nodes.into_iter();
        let mut first = nodes.next().expect("a cluster has nodes");
        first.others = nodes.collect();
        first
    }

    /// The nodes of the cluster that is used as one server, or the only one.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        std::iter::once(self).chain(&self.others)
    }

    /// Whether this node serves a key.
    pub(crate) fn serves(&self, key: &str) -> bool {
        let mut client = self.client_of_node();
        let reply = client.run(&format!("OBJECT FREQ {key}"));
        !reply.starts_with("(error) MOVED")
    }

    /// A connection to this node alone.
    fn client_of_node(&self) -> Client {
        Client::connect(self.port).unwrap_or_else(|why| panic!("cannot connect: {why}"))
    }

    /// A connection to the node that serves a key, for transactions: they are not redirected.
    ///
    /// # Panics
    /// When none does.
    pub fn client_of(&self, key: &str) -> Client {
        let node = self.nodes().find(|node| node.serves(key));
        node.expect("a node serves the key").client_of_node()
    }

    /// The port. It can change in a restart, if another process took the old one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    ///
    /// # Panics
    /// When it was stopped.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// Its working directory: the RDB file, the AOF directory and `server.log`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The append-only file to which it writes: the newest incremental one.
    ///
    /// # Panics
    /// When there is none.
    pub fn append_only_file(&self) -> PathBuf {
        let files = fs::read_dir(self.dir().join("appendonlydir")).expect("a directory");
        let files = files.map(|file| file.expect("a file").path());
        let number = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?;
            let name = name.strip_suffix(".incr.aof")?;
            name.rsplit('.').next()?.parse::<u64>().ok()
        };
        let newest = files.filter_map(|path| Some((number(&path)?, path))).max();
        newest.expect("an incremental file").1
    }

    /// The whole log, including that before restarts.
    pub fn log(&self) -> String {
        fs::read(self.dir().join("server.log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// A new RESP2 connection.
    pub fn client(&self) -> Client {
        let client = self.client_of_node();
        client.with_nodes(self.others.iter().map(Server::port).collect())
    }

    /// Whether its port refuses connections.
    pub fn refuses_connections(&self) -> bool {
        Client::connect(self.port).is_err()
    }

    /// A new RESP3 connection.
    pub fn client3(&self) -> Client {
        self.client().resp3()
    }

    /// A new connection that sends and receives raw bytes.
    pub fn raw(&self) -> RawSocket {
        RawSocket::connect(self.port).unwrap_or_else(|why| panic!("cannot connect: {why}"))
    }

    /// A new connection of the `redis` crate.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))
            .and_then(|client| client.get_connection())
            .unwrap_or_else(|why| panic!("cannot connect: {why}"))
    }

    /// The product and version.
    pub fn version(&self) -> Version {
        let info = self.client().info("server");
        let valkey = info.contains_key("valkey_version");
        let field = if valkey {
            "valkey_version"
        } else {
            "redis_version"
        };
        let mut numbers = info[field].split('.').map(|n| n.parse().unwrap_or(0));
        let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Version { valkey, number }
    }

    /// Adds a line to the configuration of the next start.
    pub fn configure(&mut self, line: &str) {
        self.settings.push(line);
        self.others.iter_mut().for_each(|node| node.configure(line));
    }

    /// Stops it with `SHUTDOWN NOSAVE` and starts it again on the same directory.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Starts a stopped or killed server again on the same directory.
    ///
    /// A kill can interrupt the write of a transaction to the append-only file. The server truncates the last command, but keeps the
    /// earlier commands of the transaction in the file, and would execute them at its next start. Such a file is rewritten.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let before = self.log().len();
        self.launch()
            .unwrap_or_else(|log| panic!("the server did not start again:\n{log}"));
        let log = self.log();
        let new = log.get(before..).unwrap_or(&log);
        if new.contains("short read while loading the AOF") {
            self.rewrite_aof();
        }
        self.others.iter_mut().for_each(Server::start_again);
    }

    /// [`start_again`](Self::start_again) on another port.
    ///
    /// # Panics
    /// When it does not start, or another process keeps the port.
    pub fn start_again_at(&mut self, port: u16) {
        self.port = port;
        self.start_again();
        assert_eq!(self.port, port, "another process has the port");
    }

    /// [`start_again`](Self::start_again) for a server that may fail to start.
    ///
    /// # Errors
    /// The log of a server that exited before it was ready.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        self.launch()
    }

    /// Loads the module into a running server that started without it, and with each start from now on. The server needs
    /// `enable-module-command local`.
    pub fn load_module(&mut self) {
        let file = env::module();
        let file = file.to_str().expect("a path in UTF-8");
        self.client().call(&["MODULE", "LOAD", file]);
        self.settings.module = ModuleFile::Release;
        for node in &mut self.others {
            node.settings.module = ModuleFile::Release;
        }
    }

    /// Sends `SHUTDOWN NOSAVE` and waits until the process has exited.
    pub fn stop(&mut self) -> ExitStatus {
        // The connection ends without a reply.
        let _ = self.client().try_call(&["SHUTDOWN", "NOSAVE"]);
        for node in &mut self.others {
            node.stop();
        }
        self.wait_for_end()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have exited already.
            let _ = process.kill();
            process.wait().expect("a killed server can be waited for");
        }
        self.others.iter_mut().for_each(Server::kill);
    }

    /// Sends a signal by name (`TERM`, `STOP`, `CONT` ...).
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.pid())])
            .status()
            .expect("sh runs");
        assert!(status.success(), "kill -{name} failed");
        self.others.iter().for_each(|node| node.signal(name));
    }

    /// Waits until the process has exited by itself.
    ///
    /// # Panics
    /// When it does not exit.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the server runs");
        let limit = Instant::now() + deadline(60);
        loop {
            match process.try_wait().expect("the child can be waited for") {
                Some(status) => return status,
                None if Instant::now() > limit => {
                    self.process = Some(process);
                    panic!("the server did not exit");
                }
                None => std::thread::sleep(std::time::Duration::from_millis(2)),
            }
        }
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        match &mut self.process {
            Some(process) => process
                .try_wait()
                .expect("the child can be waited for")
                .is_none(),
            None => false,
        }
    }

    /// Asserts that the process still runs.
    ///
    /// # Panics
    /// When it does not, with the end of its log.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        assert!(self.is_alive(), "the server exited:\n{}", self.log_tail());
    }

    /// Waits until this replica's link to its master is up.
    pub fn wait_for_link(&self) {
        let mut client = self.client();
        wait_until("the replica is in sync", || {
            client
                .info("replication")
                .get("master_link_status")
                .map(String::as_str)
                == Some("up")
        });
    }

    /// Waits until `replica` has processed all writes of this server.
    pub fn wait_for_replica(&self, replica: &Server) {
        let (mut mine, mut its) = (self.client(), replica.client());
        wait_until("the replica has everything", || {
            let its = its.info("replication");
            its.get("master_link_status").map(String::as_str) == Some("up")
                && its.get("slave_repl_offset")
                    == mine.info("replication").get("master_repl_offset")
        });
    }

    /// Sends `BGREWRITEAOF` and waits until it is done.
    pub fn rewrite_aof(&self) {
        let mut client = self.client();
        wait_until("no AOF rewrite is under way", || idle(&mut client));
        client.ok("BGREWRITEAOF");
        wait_until("the AOF rewrite is done", || idle(&mut client));
        let status = client.info("persistence")["aof_last_bgrewrite_status"].clone();
        assert_eq!(status, "ok", "BGREWRITEAOF failed:\n{}", self.log_tail());
        self.others.iter().for_each(Server::rewrite_aof);
    }

    /// Another process, or a test that looks for a free port, can hold the port: the first start then takes another port. A restart
    /// waits for its port, because clients know it, and takes another one only when it does not become free.
    fn launch(&mut self) -> Result<(), String> {
        const ATTEMPTS: u32 = 20;
        let is_restart = self.port != 0;
        for attempt in 0..ATTEMPTS {
            match (is_restart, attempt) {
                (false, _) | (true, 10..) => self.port = env::free_port(),
                (true, 0) => {}
                (true, _) => std::thread::sleep(deadline(1)),
            }
            self.settings.write_config(self.dir.path(), self.port);
            let before = self.log().len();
            self.process = Some(spawn(self.dir.path(), &self.settings));
            match self.wait_until_ready(before) {
                Ok(()) => return Ok(()),
                Err(log) if log.contains("Address already in use") => continue,
                Err(log) => return Err(log),
            }
        }
        Err(format!("no free port in {ATTEMPTS} attempts"))
    }

    fn wait_until_ready(&mut self, log_start: usize) -> Result<(), String> {
        let limit = Instant::now() + deadline(60);
        loop {
            let ended = match &mut self.process {
                Some(process) => process.try_wait().expect("the child can be waited for"),
                None => None,
            };
            if let Some(status) = ended {
                self.process = None;
                let log = self.log();
                return Err(format!(
                    "{status}\n{}",
                    log.get(log_start..).unwrap_or(&log)
                ));
            }
            if self.is_ready() {
                return Ok(());
            }
            if Instant::now() > limit {
                self.kill();
                return Err(format!("no reply within the deadline\n{}", self.log()));
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Whether the process on the port is this server, responds, and has loaded its data.
    fn is_ready(&self) -> bool {
        let Ok(mut client) = Client::connect(self.port) else {
            return false;
        };
        let Ok(reply) = client.try_call(&["INFO"]) else {
            return false;
        };
        let info = client::fields(&reply::text(reply));
        info.get("process_id").map(String::as_str) == Some(&self.pid().to_string())
            && info.get("loading").map(String::as_str) == Some("0")
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(80)..].join("\n")
    }
}

impl Builder {
    /// Starts as a replica of `master` and waits until it is in sync.
    pub fn replica_of(self, master: &Server) -> Self {
        self.config(&format!("replicaof 127.0.0.1 {}", master.port()))
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// When it does not start: the message ends with its log.
    pub fn start(self) -> Server {
        let replica = self.config.iter().any(|line| line.starts_with("replicaof"));
        let server = self
            .try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        if replica {
            server.wait_for_link();
        }
        server
    }

    /// Starts the server.
    ///
    /// # Errors
    /// The log of a server that exited before it was ready.
    pub fn try_start(self) -> Result<Server, String> {
        let mut server = Server {
            process: None,
            port: 0,
            dir: TempDir::new(),
            settings: self,
            others: Vec::new(),
        };
        server.launch().map(|()| server)
    }
}

fn idle(client: &mut Client) -> bool {
    let info = client.info("persistence");
    info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
}

fn spawn(dir: &Path, settings: &Builder) -> Child {
    let mut command = env::server_command();
    if settings.ignores_file_size_signal {
        // What is ignored stays ignored in the program that replaces the shell.
        let shell = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
        command.splice(0..0, shell.map(str::to_owned));
    }
    let mut words = command.into_iter();
    let program = words.next().expect("the server's command is not empty");
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("server.log"))
        .expect("the test's directory is writable");
    let errors = log.try_clone().expect("a file handle can be duplicated");
    Command::new(&program)
        .args(words)
        .arg(dir.join("test.conf"))
        // Relative paths in a configuration file are relative to the workspace.
        .current_dir(env::workspace())
        .envs(settings.environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .unwrap_or_else(|why| panic!("cannot start {program}: {why}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = if self.is_alive() { "alive" } else { "ended" };
            eprintln!(
                "--- server on port {} ({state}), end of its log:\n{}\n---",
                self.port,
                self.log_tail()
            );
        } else if env::slow() > 1.0 && self.is_alive() {
            // Under valgrind, only a regular exit reports leaks.
            let _ = self.client().try_call(&["SHUTDOWN", "NOSAVE"]);
            self.wait_for_end();
        }
        self.kill();
    }
}
