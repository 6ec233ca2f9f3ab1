//! A pipelined connection that costs the client as little as it can: bytes out, replies counted.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::Result;
use crate::resp::ReplyCounter;

/// Bytes read at a time: more than any batch's replies but those of whole pages.
const READ_BYTES: usize = 256 * 1024;

/// One connection, with what is still owed on it.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    replies: ReplyCounter,
    owed: u64,
}

impl Connection {
    /// Connects to a server on this machine.
    pub fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            buffer: vec![0; READ_BYTES],
            filled: 0,
            replies: ReplyCounter::new(),
            owed: 0,
        })
    }

    /// Sends commands that bring `replies` replies. The server reads on while it owes replies, so this cannot deadlock.
    pub fn send(&mut self, commands: &[u8], replies: u64) -> Result<()> {
        self.stream.write_all(commands)?;
        self.owed += replies;
        Ok(())
    }

    /// Waits for everything that is owed. An error reply anywhere is an error: a figure for failing commands is worth nothing.
    pub fn wait(&mut self) -> Result<()> {
        while self.replies.complete() < self.owed {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
            let used = self.replies.feed(&self.buffer[..self.filled]);
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        match self.replies.error() {
            Some(error) => Err(format!("the server answered {error}").into()),
            None => Ok(()),
        }
    }
}
