//! A cluster client that retries only what was certainly not executed.

use countint_tests::{Client, Value, args, reply};
use std::collections::HashMap;

/// The slot of a key: CRC-16 (XMODEM) of it, or of what stands between its first `{` and the next `}`.
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

/// Sends each call to the node that it believes to own the slot, and follows where it is sent to.
pub struct Router {
    first: u16,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Client>,
    /// How often a slot turned out to have another owner.
    pub moved: u64,
    /// How often a key was on its way to another owner.
    pub asked: u64,
    /// How often some of the keys were here and some there.
    pub tried_again: u64,
}

impl Router {
    /// Begins with the node on this port.
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

    /// Sends a call whose keys are in `slot` until it is executed. The four errors after which it is sent again are
    /// given before a command runs; a broken connection, after which nobody knows, fails the test.
    ///
    /// # Panics
    /// When it is not executed after a great many attempts.
    pub fn call(&mut self, slot: u16, call: &[Vec<u8>]) -> Value {
        const ATTEMPTS: u32 = 20_000;
        let mut answer = self.owner(slot).call(call);
        for _ in 0..ATTEMPTS {
            let Value::ServerError(error) = &answer else {
                return answer;
            };
            let text = reply::error_text(error);
            let words: Vec<&str> = text.split(' ').collect();
            answer = match words[0] {
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
                _ => return answer,
            };
        }
        panic!("never executed: {}", reply::format(&answer));
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
