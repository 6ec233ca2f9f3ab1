//! A minimal HTTP/1.1 client: one keep-alive connection, one request in flight, requests encoded in advance.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::driver::connection::connect;
use crate::error::Result;

/// A keep-alive connection.
pub struct Http {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Encodes a POST request.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Encodes a GET request.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: b\r\n\r\n").into_bytes()
}

impl AsFd for Http {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Http {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> Result<Http> {
        Ok(Http {
            stream: connect(port)?,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and returns the response's body. Fails unless the status is 200 and the body reports no error.
    pub fn request(&mut self, request: &[u8]) -> Result<&[u8]> {
        let head = self.exchange(request)?;
        self.body(head)
    }

    /// Sends a request and returns whether it is refused with this error code. Fails with any other error.
    pub fn is_refused(&mut self, request: &[u8], code: &str) -> Result<bool> {
        let head = self.exchange(request)?;
        let code = format!("\"code\":\"{code}\"");
        if find(&self.buffer[head..], code.as_bytes()).is_some() {
            return Ok(true);
        }
        self.body(head)?;
        Ok(false)
    }

    /// Sends a request without waiting for its response.
    pub fn start(&mut self, request: &[u8]) -> Result<()> {
        self.buffer.clear();
        Ok(self.stream.write_all(request)?)
    }

    /// Reads once. Returns whether the response to the [started](Self::start) request is complete. Fails unless the status is 200 and the body
    /// reports no error.
    pub fn receive(&mut self) -> Result<bool> {
        match self.read()? {
            Some(head) => self.body(head).map(|_| true),
            None => Ok(false),
        }
    }

    /// Sends a request and reads the response. Returns the length of its head.
    fn exchange(&mut self, request: &[u8]) -> Result<usize> {
        self.start(request)?;
        loop {
            if let Some(head) = self.read()? {
                return Ok(head);
            }
        }
    }

    /// The body of the response after its head. Fails unless the status is 200 and the body reports no error.
    fn body(&self, head: usize) -> Result<&[u8]> {
        let body = &self.buffer[head..];
        if !self.buffer.starts_with(b"HTTP/1.1 200") || find(body, b"\"error\"").is_some() {
            let response = String::from_utf8_lossy(&self.buffer);
            let start: String = response.chars().take(500).collect();
            return Err(format!("unexpected response from countd: {start}").into());
        }
        Ok(body)
    }

    /// Reads once. Returns the length of the head when the response is complete.
    fn read(&mut self) -> Result<Option<usize>> {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => return Err("countd closed the connection".into()),
            n => self.buffer.extend_from_slice(&chunk[..n]),
        }
        let Some(end) = find(&self.buffer, b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = end + 4;
        let length = content_length(std::str::from_utf8(&self.buffer[..end])?)?;
        Ok((self.buffer.len() >= head + length).then_some(head))
    }
}

fn content_length(head: &str) -> Result<usize> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let found = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, value) = found.ok_or("a response without Content-Length")?;
    Ok(value.trim().parse()?)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
