//! Commands in replication streams and in append-only files.

use crate::client::encode;
use crate::env::deadline;
use crate::line;
use crate::server::Server;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// A command and its arguments.
pub type Command = Vec<Vec<u8>>;

/// Formats a command as a line for [`line::split`]. Arguments other than plain words are quoted.
pub fn print(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|arg| match arg.as_slice() {
        plain if !plain.is_empty() && plain.iter().all(|b| b.is_ascii_graphic() && *b != b'"') => {
            String::from_utf8_lossy(plain).into_owned()
        }
        other => line::quote(other),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Reformats a line as [`print()`] does.
///
/// # Panics
/// When its quotes are invalid.
pub fn normalize(line: &str) -> String {
    print(&line::split(line).unwrap_or_else(|why| panic!("{why}: {line}")))
}

/// Commands as lines, without `SELECT` and the heartbeat `PING` (in either case) of the replication link.
pub fn lines(commands: &[Command]) -> Vec<String> {
    let of_link = |command: &Command| {
        command.first().is_some_and(|name| {
            name.eq_ignore_ascii_case(b"PING") || name.eq_ignore_ascii_case(b"SELECT")
        })
    };
    let commands = commands.iter().filter(|command| !of_link(command));
    commands.map(|command| print(command)).collect()
}

fn invalid_data(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Reads a line that begins with `mark`, and returns the number after it. `None` at the end of the input.
fn read_prefixed_number(input: &mut impl BufRead, mark: u8) -> io::Result<Option<usize>> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let number = line
        .strip_prefix(&[mark])
        .and_then(|rest| std::str::from_utf8(rest).ok()?.trim_end().parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(invalid_data(&format!(
            "not a command: {}",
            line::quote(&line)
        ))),
    }
}

/// Reads one command. `None` at the end of the input.
///
/// # Errors
/// When the input cannot be read or is not a command.
pub fn read_command(input: &mut impl BufRead) -> io::Result<Option<Command>> {
    let Some(count) = read_prefixed_number(input, b'*')? else {
        return Ok(None);
    };
    let mut command = Vec::new();
    for _ in 0..count {
        let len = read_prefixed_number(input, b'$')?
            .ok_or_else(|| invalid_data("a command is truncated"))?;
        let mut arg = vec![0; len + 2];
        input.read_exact(&mut arg)?;
        arg.truncate(len);
        command.push(arg);
    }
    Ok(Some(command))
}

/// A replica that only reads the replication stream.
pub struct ReplicationStream(BufReader<TcpStream>);

impl ReplicationStream {
    /// Connects to a master as a replica.
    ///
    /// # Panics
    /// When the master does not accept the replica.
    pub fn attach(master: &Server) -> ReplicationStream {
        let open = || -> io::Result<BufReader<TcpStream>> {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, master.port()))?;
            socket.set_read_timeout(Some(deadline(60)))?;
            socket.write_all(&encode(&["SYNC"]))?;
            let mut input = BufReader::new(socket);
            // The master sends empty lines while it saves the RDB file.
            while input.fill_buf()?.first() == Some(&b'\n') {
                input.consume(1);
            }
            let size = read_prefixed_number(&mut input, b'$')?
                .ok_or_else(|| invalid_data("no RDB file"))?;
            let snapshot = io::copy(&mut input.by_ref().take(size as u64), &mut io::sink())?;
            match snapshot == size as u64 {
                true => Ok(input),
                false => Err(invalid_data("the RDB file is truncated")),
            }
        };
        ReplicationStream(open().unwrap_or_else(|why| panic!("cannot replicate: {why}")))
    }

    /// The next command.
    ///
    /// # Panics
    /// When none arrives.
    pub fn next_command(&mut self) -> Command {
        match read_command(&mut self.0) {
            Ok(Some(command)) => command,
            Ok(None) => panic!("the master closed the link"),
            Err(why) => panic!("no command on the link: {why}"),
        }
    }

    /// All commands up to the one in `line`, which is not included.
    ///
    /// # Panics
    /// When that command does not arrive.
    pub fn until(&mut self, line: &str) -> Vec<Command> {
        let last = line::split(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        std::iter::from_fn(|| Some(self.next_command()).filter(|command| *command != last))
            .collect()
    }
}

/// The commands in the newest incremental file of a server's append-only directory.
///
/// # Panics
/// When there is none, or it cannot be parsed.
pub fn append_only_commands(server: &Server) -> Vec<Command> {
    let read = || -> io::Result<Vec<Command>> {
        let mut input = BufReader::new(File::open(server.append_only_file())?);
        std::iter::from_fn(|| read_command(&mut input).transpose()).collect()
    };
    read().unwrap_or_else(|why| panic!("cannot read the append-only file: {why}"))
}
