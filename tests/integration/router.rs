//! A cluster client that retries only calls that were certainly not executed.

use countint_tests::{Client, Value, args, reply};
use std::collections::HashMap;

/// The slot of a key: CRC-16 (XMODEM) of the key, or of its hash tag.
pub fn slot(key: &[u8]) -> u16 {
    let tag = || {
        let (_, rest) = split_at_byte(key, b'{')?;
        let (tag, _) = split_at_byte(rest, b'}')?;
        (!tag.is_empty()).then_some(tag)
    };
    let crc = tag().unwrap_or(key).iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}

fn split_at_byte(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|b| *b == byte)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// Sends each call to the known owner of its slot, and follows redirections.
pub struct Router {
    first: u16,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Client>,
    /// MOVED redirections.
    pub moved: u64,
    /// ASK redirections.
    pub asked: u64,
    /// TRYAGAIN errors.
    pub tried_again: u64,
}

impl Router {
    /// Starts with the node on this port as the owner of all slots.
    pub fn new(first: u16) -> Router {
        Router {
            first,
            owners: HashMap::new(),
            connections: HashMap::new(),
            moved: 0,
            asked: 0,
            tried_again: 0,
        }
    }

    /// The connection to a node.
    fn node(&mut self, port: u16) -> &mut Client {
        let connect = || Client::connect(port).unwrap_or_else(|why| panic!("port {port}: {why}"));
        self.connections.entry(port).or_insert_with(connect)
    }

    /// The connection to the node that answered the last call to this slot.
    pub fn owner(&mut self, slot: u16) -> &mut Client {
        let port = *self.owners.get(&slot).unwrap_or(&self.first);
        self.node(port)
    }

    /// Sends a call whose keys are in `slot` until it is executed. It is repeated only after four errors that are returned
    /// before a command runs. A broken connection, after which the outcome is unknown, fails the test.
    ///
    /// # Panics
    /// When it is not executed after 20,000 attempts.
    pub fn call(&mut self, slot: u16, call: &[Vec<u8>]) -> Value {
        const ATTEMPTS: u32 = 20_000;
        let mut reply = self.owner(slot).call(call);
        for _ in 0..ATTEMPTS {
            let Value::ServerError(error) = &reply else {
                return reply;
            };
            let text = reply::error_text(error);
            let words: Vec<&str> = text.split(' ').collect();
            reply = match words[0] {
                "MOVED" => {
                    self.moved += 1;
                    self.owners.insert(slot, port(words[2]));
                    self.owner(slot).call(call)
                }
                "ASK" => {
                    self.asked += 1;
                    let target = self.node(port(words[2]));
                    target.call(&args!["ASKING"]);
                    target.call(call)
                }
                "TRYAGAIN" | "CLUSTERDOWN" => {
                    self.tried_again += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    self.owner(slot).call(call)
                }
                _ => return reply,
            };
        }
        panic!("never executed: {}", reply::format(&reply));
    }
}

/// The port of `host:port`.
fn port(address: &str) -> u16 {
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("an address without a port: {address}"))
}
