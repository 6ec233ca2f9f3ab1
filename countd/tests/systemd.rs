//! countd as a service of systemd. The tests play systemd: they listen, pass the socket, and read what countd reports.

use crate::support::{environment, set_schema};
use countint_tests::env::{TempDir, deadline};
use countint_tests::{Server, wait_until};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes the standard input as the first and the second descriptor. After `exec` the process is the one of `LISTEN_PID`.
const PASS: &str = "exec 3<&0 4<&0 </dev/null; export LISTEN_PID=$$; exec \"$@\"";

/// Ends the thread that receives notifications.
const END: &str = "END";

/// What systemd holds for a service: its socket, and the socket that receives notifications.
struct Manager {
    listener: TcpListener,
    received: Arc<Mutex<Vec<String>>>,
    dir: TempDir,
}

/// A process of the service. Dropping it kills it.
struct Service(Child);

impl Manager {
    fn new() -> Manager {
        let dir = TempDir::new();
        let notifications = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
        let received = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&received);
        // The queue of a datagram socket is short, and its senders wait while it is full.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = notifications.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                if text == END {
                    return;
                }
                let mut lines = lines.lock().expect("no test panics with the lock");
                lines.extend(text.lines().map(str::to_owned));
            }
        });
        Manager {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"),
            received,
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
            .spawn();
        Service(process.expect("sh starts"))
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("countd.log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// What was received since the last call of [`forget`](Self::forget).
    fn received(&self) -> Vec<String> {
        self.received.lock().expect("it is not poisoned").clone()
    }

    fn forget(&self) {
        self.received.lock().expect("it is not poisoned").clear();
    }

    /// Waits until lines that begin with `state` were received this often. Fails if the service ends before.
    #[track_caller]
    fn wait_for(&self, service: &mut Service, state: &str, times: usize) {
        wait_until(&format!("countd reports {state}"), || {
            let ended = service.0.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "{ended:?}:\n{}", self.log());
            let received = self.received();
            received
                .iter()
                .filter(|line| line.starts_with(state))
                .count()
                >= times
        });
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

    /// Sends SIGTERM and waits until it ends. It reports this before.
    #[track_caller]
    fn stop(&self, mut service: Service) {
        let kill = format!("kill -TERM {}", service.0.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.is_ok_and(|status| status.success()), "it runs");
        let status = service.end();
        assert!(status.success(), "{status}:\n{}", self.log());
        wait_until("countd reports STOPPING=1", || {
            self.received().iter().any(|line| line == "STOPPING=1")
        });
    }
}

impl Service {
    /// Waits until it ends.
    #[track_caller]
    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("countd ends", || {
            status = self.0.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Without the thread there is nothing to end.
        let _ = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to(END.as_bytes(), self.dir.path().join("notify")));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
        manager.forget();
        let early = manager.request();
        let mut service = manager.start(&server, command, (manager.socket(), 1));
        manager.wait_for(&mut service, "READY=1", 1);
        assert_answered(early);
        assert_answered(manager.request());
        let received = manager.received();
        assert!(
            !received.iter().any(|line| line == "STOPPING=1"),
            "{received:?}"
        );
        manager.stop(service);
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
    manager.wait_for(&mut service, "WATCHDOG=1", 3);
    let received = manager.received();
    assert!(
        !received.iter().any(|line| line == "READY=1"),
        "{received:?}"
    );
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    manager.wait_for(&mut service, "READY=1", 1);
    manager.forget();
    manager.wait_for(&mut service, "WATCHDOG=1", 3);
    manager.stop(service);
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
        assert!(!manager.received().iter().any(|line| line == "READY=1"));
    }
}

#[test]
fn a_socket_that_other_machines_reach_needs_tokens() {
    let server = Server::start();
    for (command, setting) in [("all", "http.listen"), ("consume", "consumer.listen")] {
        let manager = Manager::new();
        let open = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
        let mut service = manager.start(&server, command, (OwnedFd::from(open), 1));
        let status = service.end();
        assert_eq!(status.code(), Some(1), "{}", manager.log());
        for problem in [setting, "auth.allow_anonymous = true"] {
            assert!(manager.log().contains(problem), "{}", manager.log());
        }
    }
}
