//! A connection to a server that a test can stop: a proxy.

use countint_tests::{Server, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A proxy. What it stops is delivered later, in order, and the connections stay open meanwhile.
pub struct Link {
    port: u16,
    requests: Arc<Gate>,
    replies: Arc<Gate>,
    replication: Arc<Gate>,
    is_ended: Arc<AtomicBool>,
}

/// What passes in one direction.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    /// The gate closes before bytes that contain this.
    closes_at: Mutex<Option<Vec<u8>>>,
}

impl Link {
    /// A proxy for connections to a server.
    pub fn to(server: &Server) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let link = Link {
            port: listener.local_addr().expect("an address").port(),
            requests: Arc::default(),
            replies: Arc::default(),
            replication: Arc::default(),
            is_ended: Arc::default(),
        };
        let (requests, replies) = (Arc::clone(&link.requests), Arc::clone(&link.replies));
        let replication = Arc::clone(&link.replication);
        let (to, is_ended) = (server.port(), Arc::clone(&link.is_ended));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_ended.load(SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                let clones = (server.try_clone(), client.try_clone());
                let (Ok(to_server), Ok(from_client)) = clones else {
                    continue;
                };
                let is_replica = Arc::new(AtomicBool::new(false));
                let (requests, syncs) = (Arc::clone(&requests), Arc::clone(&is_replica));
                thread::spawn(move || {
                    copy(from_client, to_server, |bytes| {
                        if contains(bytes, b"PSYNC") {
                            syncs.store(true, SeqCst);
                        }
                        requests.pass(bytes);
                    });
                });
                let (replies, replication) = (Arc::clone(&replies), Arc::clone(&replication));
                thread::spawn(move || {
                    copy(server, client, |bytes| {
                        replies.pass(bytes);
                        if is_replica.load(SeqCst) {
                            replication.pass(bytes);
                        }
                    });
                });
            }
        });
        link
    }

    /// The port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops or resumes what the server sends.
    pub fn pause(&self, is_paused: bool) {
        self.replies.is_closed.store(is_paused, SeqCst);
    }

    /// Stops or resumes what the server sends to replicas. Its replies to other clients pass.
    pub fn pause_replication(&self, is_paused: bool) {
        self.replication.is_closed.store(is_paused, SeqCst);
    }

    /// Stops what clients send, of all connections, when one of them sends this text.
    pub fn hold_at(&self, text: &str) {
        let mut closes_at = self.requests.closes_at.lock().expect("no thread panicked");
        *closes_at = Some(text.as_bytes().to_vec());
    }

    /// Waits until a client has sent the text of [`hold_at`](Link::hold_at).
    #[track_caller]
    pub fn wait_until_held(&self) {
        wait_until("the request is held", || {
            self.requests.is_closed.load(SeqCst)
        });
    }

    /// Delivers what was held, and holds nothing more.
    pub fn release(&self) {
        let mut closes_at = self.requests.closes_at.lock().expect("no thread panicked");
        *closes_at = None;
        self.requests.is_closed.store(false, SeqCst);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_ended.store(true, SeqCst);
        self.pause(false);
        self.pause_replication(false);
        self.release();
        // Ends the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Gate {
    /// Waits until bytes may pass.
    fn pass(&self, bytes: &[u8]) {
        let closes_at = self.closes_at.lock().expect("no thread panicked");
        if let Some(text) = closes_at.as_deref()
            && contains(bytes, text)
        {
            self.is_closed.store(true, SeqCst);
        }
        drop(closes_at);
        while self.is_closed.load(SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

/// Copies until one side is closed. `pass` returns when bytes may pass.
fn copy(mut from: TcpStream, mut to: TcpStream, pass: impl Fn(&[u8])) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        pass(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may be closed already.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
