//! A replication link that a test can stop: a proxy between a replica and its primary.

use countint_tests::Server;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A proxy. While it is paused, the replica gets nothing, and its connection stays open.
pub struct Link {
    port: u16,
    is_paused: Arc<AtomicBool>,
    is_ended: Arc<AtomicBool>,
}

impl Link {
    /// A proxy for connections to a primary.
    pub fn to(primary: &Server) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let link = Link {
            port,
            is_paused: Arc::default(),
            is_ended: Arc::default(),
        };
        let (to, is_paused, is_ended) = (
            primary.port(),
            Arc::clone(&link.is_paused),
            Arc::clone(&link.is_ended),
        );
        thread::spawn(move || {
            for replica in listener.incoming().flatten() {
                if is_ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(primary) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                let clones = (primary.try_clone(), replica.try_clone());
                let (Ok(to_primary), Ok(from_replica)) = clones else {
                    continue;
                };
                let never = Arc::new(AtomicBool::new(false));
                thread::spawn(move || copy(from_replica, to_primary, &never));
                let is_paused = Arc::clone(&is_paused);
                thread::spawn(move || copy(primary, replica, &is_paused));
            }
        });
        link
    }

    /// The setting of a replica that follows its primary over this link.
    pub fn setting(&self) -> String {
        format!("replicaof 127.0.0.1 {}", self.port)
    }

    /// Stops or resumes what the primary sends.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.pause(false);
        // Ends the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Copies until one side is closed.
fn copy(mut from: TcpStream, mut to: TcpStream, is_paused: &AtomicBool) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while is_paused.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(2));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may be closed already.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
