//! The least of an HTTP client: one connection, one request at a time, prepared before.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::Result;

/// A connection that is kept.
pub struct Http {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The bytes of a POST.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The bytes of a GET.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: b\r\n\r\n").into_bytes()
}

impl Http {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> Result<Http> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Http {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and returns the body of the answer, which must be 200 and hold no error.
    pub fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request)?;
        self.buffer.clear();
        let (head, length) = loop {
            self.read()?;
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.buffer[..end])?;
                break (end + 4, content_length(head)?);
            }
        };
        while self.buffer.len() < head + length {
            self.read()?;
        }
        let body = &self.buffer[head..];
        if !self.buffer.starts_with(b"HTTP/1.1 200") || find(body, b"\"error\"").is_some() {
            let answer = String::from_utf8_lossy(&self.buffer);
            let start: String = answer.chars().take(500).collect();
            return Err(format!("countd answered {start}").into());
        }
        Ok(body)
    }

    fn read(&mut self) -> Result<()> {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece)? {
            0 => Err("countd closed the connection".into()),
            n => {
                self.buffer.extend_from_slice(&piece[..n]);
                Ok(())
            }
        }
    }
}

fn content_length(head: &str) -> Result<usize> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let found = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, value) = found.ok_or("an answer without a length")?;
    Ok(value.trim().parse()?)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
