//! countd as a service of systemd. The tests play systemd: they listen, pass the socket, and read what countd reports.

use crate::support::{environment, set_schema};
use countint_tests::Server;
use countint_tests::env::{TempDir, deadline};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Passes the standard input as the first and the second descriptor. After `exec` the process is the one of `LISTEN_PID`.
const PASS: &str = "exec 3<&0 4<&0 </dev/null; export LISTEN_PID=$$; exec \"$@\"";

/// What systemd holds for a service: its socket, and the socket that receives notifications.
struct Manager {
    listener: TcpListener,
    notifications: UnixDatagram,
    dir: TempDir,
}

/// A process of the service.
struct Service {
    process: Child,
    seen: Vec<String>,
}

impl Manager {
    fn new() -> Manager {
        let dir = TempDir::new();
        let notifications = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
        notifications
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout");
        Manager {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"),
            notifications,
            dir,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it listens")
    }

    fn socket(&self) -> OwnedFd {
        self.listener.try_clone().expect("a descriptor").into()
    }

    /// Starts `countd COMMAND` with this socket, `count` times.
    fn start(&self, server: &Server, command: &str, (socket, count): (OwnedFd, usize)) -> Service {
        // Every setting has the address of the socket: binding it fails.
        let listen = ["HTTP", "CONSUMER", "RELAY"].map(|part| format!("COUNTD_{part}__LISTEN"));
        let url = format!("redis://127.0.0.1:{}/", server.port());
        let process = Command::new("sh")
            .args(["-c", PASS, "sh", env!("CARGO_BIN_EXE_countd"), command])
            .envs(environment(url, ""))
            .envs(listen.map(|setting| (setting, self.address().to_string())))
            .env("LISTEN_FDS", count.to_string())
            .env("NOTIFY_SOCKET", self.dir.path().join("notify"))
            .env("WATCHDOG_USEC", "200000")
            .stdin(socket)
            .stdout(Stdio::null())
            .stderr(File::create(self.log_file()).expect("the directory is writable"))
            .spawn()
            .expect("sh starts");
        Service {
            process,
            seen: Vec::new(),
        }
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.dir.path().join("countd.log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Reads notifications until one begins with `state`, `times` times. Fails if the service ends before.
    #[track_caller]
    fn wait_for(&self, service: &mut Service, state: &str, times: usize) {
        let limit = Instant::now() + deadline(60);
        let mut found = 0;
        while found < times {
            found += self.read(service, state);
            let ended = service.process.try_wait().expect("a child");
            let waits = ended.is_none() && Instant::now() < limit;
            assert!(
                waits || found >= times,
                "no {state}, {ended:?}: {:?}\n{}",
                service.seen,
                self.log()
            );
        }
    }

    /// Reads a notification, if there is one, and counts its lines that begin with `state`.
    fn read(&self, service: &mut Service, state: &str) -> usize {
        let mut buffer = [0; 4096];
        match self.notifications.recv(&mut buffer) {
            Ok(length) => {
                let text = String::from_utf8_lossy(&buffer[..length]);
                let before = service.seen.len();
                service.seen.extend(text.lines().map(str::to_owned));
                let new = service.seen[before..].iter();
                new.filter(|line| line.starts_with(state)).count()
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Connects and sends a request. The connection waits until a process accepts it.
    fn request(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).expect("systemd listens");
        stream
            .set_read_timeout(Some(deadline(60)))
            .expect("a timeout");
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: countd\r\nconnection: close\r\n\r\n")
            .expect("sent");
        stream
    }

    /// Waits until it ends after a signal, which it reports before.
    #[track_caller]
    fn wait_for_end(&self, service: &mut Service) {
        let status = service.end();
        assert!(status.success(), "{status}:\n{}", self.log());
        while self.read(service, "") > 0 {}
        let place = |state: &str| service.seen.iter().position(|line| line == state);
        let (ready, stopping) = (place("READY=1"), place("STOPPING=1"));
        assert!(
            ready.is_some() && ready < stopping,
            "READY=1, then STOPPING=1: {:?}",
            service.seen
        );
    }
}

impl Service {
    fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.process.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.is_ok_and(|status| status.success()), "it runs");
    }

    fn end(&mut self) -> ExitStatus {
        self.process.wait().expect("a child can be waited for")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn assert_answered(mut stream: TcpStream) {
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

fn connections_wait_for_the_next_process(command: &str) {
    let (server, manager) = (Server::start(), Manager::new());
    set_schema(&server, "");
    for _ in 0..2 {
        let early = manager.request();
        let mut service = manager.start(&server, command, (manager.socket(), 1));
        manager.wait_for(&mut service, "READY=1", 1);
        assert_answered(early);
        assert_answered(manager.request());
        service.terminate();
        manager.wait_for_end(&mut service);
    }
}

#[test]
fn connections_wait_while_countd_restarts() {
    connections_wait_for_the_next_process("all");
}

#[test]
fn connections_wait_while_countd_serve_restarts() {
    connections_wait_for_the_next_process("serve");
}

#[test]
fn connections_wait_while_countd_consume_restarts() {
    connections_wait_for_the_next_process("consume");
}

#[test]
fn countd_is_ready_when_redis_answers() {
    let server = Server::builder().config("cluster-enabled yes").start();
    let manager = Manager::new();
    let mut service = manager.start(&server, "all", (manager.socket(), 1));
    manager.wait_for(&mut service, "STATUS=no connection to Redis yet: ", 2);
    manager.wait_for(&mut service, "WATCHDOG=1", 2);
    assert!(
        !service.seen.iter().any(|line| line == "READY=1"),
        "{:?}",
        service.seen
    );
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    manager.wait_for(&mut service, "READY=1", 1);
    manager.wait_for(&mut service, "WATCHDOG=1", 2);
}

#[test]
fn sockets_that_countd_cannot_use_are_refused() {
    let (server, manager) = (Server::start(), Manager::new());
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    for (socket, count, problem) in [
        (manager.socket(), 2, "systemd has passed 2 sockets"),
        (OwnedFd::from(udp), 1, "cannot use systemd's socket: "),
    ] {
        let mut service = manager.start(&server, "all", (socket, count));
        let status = service.end();
        assert_eq!(status.code(), Some(1), "{}", manager.log());
        assert!(manager.log().contains(problem), "{}", manager.log());
    }
}
