//! Pipelined connections with little client overhead: commands are sent as encoded, replies are counted, not decoded.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::driver::resp::{ReplyCounter, push_command};
use crate::error::Result;

/// The size of the read buffer. It holds the replies to a batch of any commands except page reads.
const READ_BYTES: usize = 256 * 1024;
/// The size of the write buffer of a [`BulkWriter`].
const CHUNK_BYTES: usize = 64 * 1024;

/// Connects to a port of this machine.
pub fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A pipelined connection that tracks its number of pending replies.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    replies: ReplyCounter,
    expected: u64,
}

impl Connection {
    /// Connects to a server on this machine.
    pub fn open(port: u16) -> Result<Connection> {
        Ok(Connection {
            stream: connect(port)?,
            buffer: vec![0; READ_BYTES],
            filled: 0,
            replies: ReplyCounter::new(),
            expected: 0,
        })
    }

    /// Sends encoded commands that expect `replies` replies. The server keeps reading while replies are pending, so
    /// this cannot deadlock.
    pub fn send(&mut self, commands: &[u8], replies: u64) -> Result<()> {
        self.stream.write_all(commands)?;
        self.expected += replies;
        Ok(())
    }

    /// Waits for all pending replies. Fails on an error reply, because the throughput of failing commands is
    /// meaningless.
    pub fn wait(&mut self) -> Result<()> {
        while self.replies.complete() < self.expected {
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
            Some(error) => Err(format!("the server replied with {error}").into()),
            None => Ok(()),
        }
    }
}

/// Sends many commands in chunks, encoding one chunk while the server executes the previous one.
pub struct BulkWriter {
    connection: Connection,
    bytes: Vec<u8>,
    commands: u64,
}

impl BulkWriter {
    /// Connects to a server on this machine.
    pub fn open(port: u16) -> Result<BulkWriter> {
        Ok(BulkWriter {
            connection: Connection::open(port)?,
            bytes: Vec::new(),
            commands: 0,
        })
    }

    /// Buffers a command, and sends the buffer when it is full.
    pub fn push(&mut self, words: &[impl AsRef<[u8]>]) -> Result<()> {
        push_command(&mut self.bytes, words);
        self.commands += 1;
        if self.bytes.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Buffers a command given as words between spaces.
    pub fn push_line(&mut self, command: &str) -> Result<()> {
        self.push(&command.split(' ').collect::<Vec<_>>())
    }

    fn flush(&mut self) -> Result<()> {
        self.connection.wait()?;
        self.connection.send(&self.bytes, self.commands)?;
        self.bytes.clear();
        self.commands = 0;
        Ok(())
    }

    /// Sends the rest of the buffer and waits for all replies.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.connection.wait()
    }
}
