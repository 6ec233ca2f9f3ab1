//! Real PostgreSQL and MariaDB servers, each in a temporary directory and on a free port.

use countint_tests::env::{TempDir, free_port};
use countint_tests::wait_until;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::runtime::Runtime;

/// The password of the user `shop`. It must not appear in any log.
pub const PASSWORD: &str = "open-sesame-4711";

/// The user `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65_534;

/// Options of MariaDB: files are small, and not synchronized with the disk. Killing the process loses nothing that was written to the
/// operating system.
const MARIADB_OPTIONS: [&str; 2] = ["--innodb-flush-method=nosync", "--innodb-log-file-size=8M"];

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MariaDb,
}

/// Defines a test of each function for each kind of database.
macro_rules! for_each_database {
    ($($case:ident)*) => {
        mod postgres { $( #[test] fn $case() { super::$case($crate::support::database::Kind::Postgres); } )* }
        mod mariadb { $( #[test] fn $case() { super::$case($crate::support::database::Kind::MariaDb); } )* }
    };
}
pub(crate) use for_each_database;

/// A running server with the empty database `shop`, or one that was killed. Dropping it stops the server.
pub struct Database {
    pub kind: Kind,
    dir: TempDir,
    port: u16,
    process: Option<Child>,
    runtime: Runtime,
}

/// A session, for locks.
pub enum Session {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Database {
    pub fn start(kind: Kind) -> Database {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build();
        let mut database = Database {
            kind,
            dir: TempDir::new(),
            port: free_port(),
            process: None,
            runtime: runtime.expect("a runtime"),
        };
        database.create();
        database.start_again();
        if kind == Kind::Postgres {
            let url = database.url_of("postgres");
            database
                .run_at(&url, "CREATE DATABASE shop")
                .expect("a database");
        }
        database
    }

    /// Creates the files of the server.
    fn create(&self) {
        let dir = self.dir.path();
        if is_root() {
            chown(dir, Some(NOBODY), Some(NOBODY)).expect("root can change owners");
        }
        let mut create = match self.kind {
            Kind::Postgres => {
                fs::write(dir.join("password"), PASSWORD).expect("the directory is writable");
                let mut create = program("initdb", "postgresql");
                create.args(["--username=shop", "--auth=scram-sha-256", "--encoding=UTF8"]);
                create.args(["--no-locale", "--no-sync", "--pwfile"]);
                create
                    .arg(dir.join("password"))
                    .arg("-D")
                    .arg(dir.join("data"));
                create
            }
            Kind::MariaDb => {
                let users = format!(
                    "CREATE DATABASE IF NOT EXISTS shop;\n\
                     CREATE USER IF NOT EXISTS shop@'%' IDENTIFIED BY '{PASSWORD}';\n\
                     GRANT ALL ON shop.* TO shop@'%' WITH GRANT OPTION;\n\
                     CREATE USER IF NOT EXISTS poor@'%' IDENTIFIED BY '{PASSWORD}';\n"
                );
                fs::write(dir.join("users.sql"), users).expect("the directory is writable");
                let mut create = program("mariadb-install-db", "mariadb-server");
                create.args(["--no-defaults", "--skip-test-db"]);
                create.args(MARIADB_OPTIONS);
                create.arg(format!("--datadir={}", dir.join("data").display()));
                // Two of them disturb each other in a shared one.
                create.arg(format!("--tmpdir={}", dir.display()));
                create
            }
        };
        let output = create.current_dir(dir).output().expect("it can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{printed}");
    }

    /// Starts the server, and waits until it accepts connections.
    pub fn start_again(&mut self) {
        let kind = self.kind;
        wait_until("the database accepts connections", || {
            // PostgreSQL ends if processes of its killed predecessor still run.
            let is_running = match &mut self.process {
                Some(process) => process.try_wait().expect("a child").is_none(),
                None => false,
            };
            if !is_running {
                self.process = Some(self.spawn());
            }
            let url = match kind {
                Kind::Postgres => self.url_of("postgres"),
                Kind::MariaDb => self.url(),
            };
            self.run_at(&url, "SELECT 1").is_ok()
        });
    }

    fn spawn(&self) -> Child {
        let (dir, port) = (self.dir.path(), self.port);
        let mut server = match self.kind {
            Kind::Postgres => {
                let mut server = program("postgres", "postgresql");
                server.arg("-D").arg(dir.join("data")).arg("-k").arg(dir);
                server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
                // Killing the process loses nothing that was written to the operating system.
                server.args(["-c", "fsync=off", "-c", "max_connections=50"]);
                server
            }
            Kind::MariaDb => {
                let mut server = program("mariadbd", "mariadb-server");
                server.args(["--no-defaults", "--bind-address=127.0.0.1"]);
                server.arg(format!("--port={port}"));
                for (option, file) in [
                    ("datadir", "data"),
                    ("tmpdir", ""),
                    ("socket", "socket"),
                    ("pid-file", "pid"),
                    ("init-file", "users.sql"),
                ] {
                    server.arg(format!("--{option}={}", dir.join(file).display()));
                }
                server.arg("--innodb-buffer-pool-size=32M");
                server.args(MARIADB_OPTIONS);
                server
            }
        };
        let log = fs::File::create(dir.join("log")).expect("the directory is writable");
        let errors = log.try_clone().expect("a file");
        server
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("the server can be run")
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended.
            let _ = process.kill();
            process.wait().expect("a killed process can be waited for");
        }
    }

    /// The URL of the database, with user and password.
    pub fn url(&self) -> String {
        self.url_of("shop")
    }

    fn url_of(&self, database: &str) -> String {
        let scheme = match self.kind {
            Kind::Postgres => "postgres",
            Kind::MariaDb => "mysql",
        };
        format!(
            "{scheme}://shop:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// The URL for the user `poor`, without permissions on tables.
    pub fn url_of_poor(&self) -> String {
        if self.kind == Kind::Postgres {
            let create = format!(
                "DO $$ BEGIN CREATE USER poor PASSWORD '{PASSWORD}'; EXCEPTION WHEN duplicate_object THEN END $$"
            );
            self.execute(&create);
        }
        self.url().replace("//shop:", "//poor:")
    }

    /// Executes statements.
    #[track_caller]
    pub fn execute(&self, sql: &str) {
        self.run_at(&self.url(), sql)
            .unwrap_or_else(|why| panic!("{sql}: {why}"));
    }

    fn run_at(&self, url: &str, sql: &str) -> Result<(), sqlx::Error> {
        self.runtime.block_on(async {
            let mut session = Session::open(self.kind, url).await?;
            session.execute(sql).await
        })
    }

    /// A session in which `sql` was executed. It ends when it is dropped.
    pub fn session(&self, sql: &str) -> Session {
        self.runtime.block_on(async {
            let session = Session::open(self.kind, &self.url()).await;
            let mut session = session.expect("a session");
            session
                .execute(sql)
                .await
                .unwrap_or_else(|why| panic!("{sql}: {why}"));
            session
        })
    }

    /// The texts in the first column of a query.
    #[track_caller]
    pub fn texts(&self, sql: &str) -> Vec<String> {
        let statement = || sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let texts = self.runtime.block_on(async {
            Ok::<_, sqlx::Error>(match Session::open(self.kind, &self.url()).await? {
                Session::Postgres(mut session) => {
                    let rows = statement().fetch_all(&mut session).await?;
                    rows.iter().map(|row| row.get_unchecked(0)).collect()
                }
                Session::MariaDb(mut session) => {
                    let rows = statement().fetch_all(&mut session).await?;
                    rows.iter().map(|row| row.get_unchecked(0)).collect()
                }
            })
        });
        texts.unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    /// The number of rows of a table that a condition selects.
    #[track_caller]
    pub fn count(&self, rows: &str) -> u64 {
        let texts = self.texts(&format!("SELECT CONCAT(COUNT(*), '') FROM {rows}"));
        texts[0].parse().expect("a number")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(20)..].join("\n");
            eprintln!("--- the database, end of its log:\n{end}\n---");
        }
        if let Some(process) = &self.process {
            // PostgreSQL's own processes end with it.
            let quit = format!("kill -QUIT {}", process.id());
            if self.kind == Kind::Postgres
                && Command::new("sh")
                    .args(["-c", &quit])
                    .status()
                    .is_ok_and(|sent| sent.success())
                && let Some(mut process) = self.process.take()
            {
                let _ = process.wait();
            }
        }
        self.kill();
    }
}

impl Session {
    async fn open(kind: Kind, url: &str) -> Result<Session, sqlx::Error> {
        Ok(match kind {
            Kind::Postgres => Session::Postgres(PgConnection::connect(url).await?),
            Kind::MariaDb => Session::MariaDb(MySqlConnection::connect(url).await?),
        })
    }

    async fn execute(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Session::Postgres(session) => statement.execute(session).await.map(drop),
            Session::MariaDb(session) => statement.execute(session).await.map(drop),
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A program of a database, run as `nobody` if the test runs as root.
///
/// # Panics
/// When the package is not installed.
fn program(name: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.push(PathBuf::from("/usr/sbin"));
    // Debian has one directory for each version.
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    directories.extend(versions.map(|version| version.path().join("bin")));
    let mut files = directories.iter().map(|directory| directory.join(name));
    let found = files.find(|file| Path::is_file(file));
    let file = found.unwrap_or_else(|| panic!("{name} is missing: install the package {package}"));
    let mut command = Command::new(file);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
