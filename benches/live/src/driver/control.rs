//! A synchronous connection for single commands, separate from the measured load.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::driver::connection::connect;
use crate::driver::resp::push_command;
use crate::error::Result;

/// A connection for single commands with a simple or bulk reply.
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Connects to a server on this machine.
    pub fn open(port: u16) -> Result<Control> {
        let stream = connect(port)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Control {
            reader: BufReader::new(stream),
        })
    }

    /// Sends one command, given as words between spaces, and returns its reply as text. An error reply is an `Err`.
    pub fn call(&mut self, command: &str) -> Result<String> {
        self.call_words(&command.split(' ').collect::<Vec<_>>())
    }

    /// [`call`](Self::call) for words that may contain spaces.
    pub fn call_words(&mut self, words: &[&str]) -> Result<String> {
        let command = words[0];
        let mut request = Vec::new();
        push_command(&mut request, words);
        self.reader.get_mut().write_all(&request)?;
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(format!("{command}: the server closed the connection").into());
        }
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_string()),
            Some(("$", length)) => self.bulk(length.parse()?),
            _ => Err(format!("{command}: {line}").into()),
        }
    }

    fn bulk(&mut self, length: usize) -> Result<String> {
        let mut body = vec![0; length + 2];
        self.reader.read_exact(&mut body)?;
        body.truncate(length);
        Ok(String::from_utf8(body)?)
    }

    /// The field `name` of a section of INFO.
    pub fn info(&mut self, section: &str, name: &str) -> Result<String> {
        let text = self.call(&format!("INFO {section}"))?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| *key == name);
        found
            .map(|(_, value)| value.to_string())
            .ok_or_else(|| format!("INFO {section} has no {name}").into())
    }
}
