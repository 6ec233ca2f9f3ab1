//! Connections: one that parses replies, and one for raw bytes.

use crate::env::deadline;
use crate::wait::wait_until;
use crate::{line, reply, routing};
use redis::{Parser, Value};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// A blocking connection. Error replies are values, so that a test can check their exact text. A broken connection, or a
/// reply that takes more than 60 seconds (times [`slow`](crate::env::slow)), is a panic.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
    port: u16,
    /// The ports of the other nodes of a cluster that is used as one server.
    others: Vec<u16>,
    /// Connections to them, opened when they are needed.
    connections: BTreeMap<u16, Client>,
}

/// The maximum number of redirections of a command.
const MAX_REDIRECTIONS: usize = 5;

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(deadline(60)))?;
    stream.set_write_timeout(Some(deadline(60)))?;
    Ok(stream)
}

/// Retries reads that a signal interrupted, which a socket with a timeout does not do by itself.
struct Uninterrupted<'a>(&'a mut TcpStream);

impl Read for Uninterrupted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// Encodes a command in RESP.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn split(line: &str) -> Vec<Vec<u8>> {
    line::split(line).unwrap_or_else(|why| panic!("{why}: {line}"))
}

impl Client {
    /// Connects to a server on this machine, in RESP2 until [`resp3`](Self::resp3).
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn connect(port: u16) -> io::Result<Client> {
        Ok(Client {
            stream: connect(port)?,
            parser: Parser::new(),
            port,
            others: Vec::new(),
            connections: BTreeMap::new(),
        })
    }

    /// Uses the nodes on other ports as parts of the same server.
    pub(crate) fn with_nodes(self, ports: Vec<u16>) -> Client {
        Client {
            others: ports,
            ..self
        }
    }

    /// The reply of the cluster to a command, given that of this node.
    fn complete<A: AsRef<[u8]>>(&mut self, args: &[A], first: Value) -> Result<Value, String> {
        if self.others.is_empty() {
            return Ok(first);
        }
        if let Some(aggregation) = routing::aggregation(args) {
            let mut replies = vec![first];
            for port in self.others.clone() {
                replies.push(self.node(port)?.try_call(args)?);
            }
            return Ok(aggregation.of(replies));
        }
        let mut reply = first;
        for _ in 0..MAX_REDIRECTIONS {
            let Some(port) = routing::moved_to(&reply) else {
                break;
            };
            reply = self.node(port)?.try_call(args)?;
        }
        Ok(reply)
    }

    fn node(&mut self, port: u16) -> Result<&mut Client, String> {
        // A node that was started again has closed its connections.
        let connection = match self.connections.remove(&port) {
            Some(connection) if connection.is_open() => connection,
            _ => Client::connect(port)
                .map_err(|why| format!("cannot connect to the node on port {port}: {why}"))?,
        };
        Ok(self.connections.entry(port).or_insert(connection))
    }

    /// Whether the server has not closed the connection. There must be no reply that was not read.
    fn is_open(&self) -> bool {
        let mut byte = [0];
        let peeked = self
            .stream
            .set_nonblocking(true)
            .and_then(|()| self.stream.peek(&mut byte));
        let is_blocking = self.stream.set_nonblocking(false).is_ok();
        is_blocking && peeked.is_err_and(|why| why.kind() == io::ErrorKind::WouldBlock)
    }

    /// Switches the connection to RESP3.
    pub fn resp3(mut self) -> Client {
        let hello = self.call(&["HELLO", "3"]);
        assert!(
            matches!(hello, Value::Map(_)),
            "HELLO 3 answered {}",
            reply::format(&hello)
        );
        self
    }

    /// Sends raw bytes, without waiting for a reply.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the next reply (or push).
    ///
    /// # Errors
    /// When the connection is closed, on a timeout, or for bytes that are not RESP.
    pub fn read(&mut self) -> Result<Value, String> {
        self.parser
            .parse_value(Uninterrupted(&mut self.stream))
            .map_err(|why| format!("no reply from the server on port {}: {why}", self.port))
    }

    /// Sends a command and reads its reply.
    ///
    /// # Errors
    /// When the connection breaks. An error reply is `Ok(Value::ServerError(_))`.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, String> {
        self.send(&encode(args))
            .map_err(|why| format!("cannot write to the server on port {}: {why}", self.port))?;
        let reply = self.read()?;
        self.complete(args, reply)
    }

    /// Sends a command and reads its reply, which can be an error reply.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.try_call(args).unwrap_or_else(|why| {
            let words: Vec<_> = args.iter().map(|arg| shorten(arg.as_ref())).collect();
            panic!("{why} (command: {})", words.join(" "))
        })
    }

    /// [`call`](Self::call) for a line as typed into redis-cli.
    pub fn line(&mut self, line: &str) -> Value {
        self.call(&split(line))
    }

    /// Runs a line and formats the reply as redis-cli does.
    pub fn run(&mut self, line: &str) -> String {
        reply::format(&self.line(line))
    }

    /// Runs a line and asserts the output of redis-cli.
    ///
    /// # Panics
    /// When the output differs.
    #[track_caller]
    pub fn expect(&mut self, line: &str, printed: &str) {
        let reply = self.run(line);
        assert!(
            reply == printed,
            "> {line}\nexpected: {printed}\n     got: {reply}"
        );
    }

    /// Runs a line and asserts that the reply is not an error.
    ///
    /// # Panics
    /// For an error reply.
    #[track_caller]
    pub fn ok(&mut self, line: &str) -> Value {
        match self.line(line) {
            Value::ServerError(error) => panic!("> {line}\n{}", reply::error_text(&error)),
            value => value,
        }
    }

    /// Sends all commands, then reads all replies, for bulk loading.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Value> {
        let mut replies = Vec::with_capacity(commands.len());
        // The pipeline depth is bounded, so that neither side blocks on a full socket.
        for chunk in commands.chunks(256) {
            let mut bytes = Vec::new();
            for args in chunk {
                bytes.extend_from_slice(&encode(args));
            }
            self.send(&bytes)
                .unwrap_or_else(|why| panic!("cannot write to port {}: {why}", self.port));
            for args in chunk {
                let reply = self.read();
                let reply = reply.and_then(|reply| self.complete(args, reply));
                replies.push(reply.unwrap_or_else(|why| panic!("{why}")));
            }
        }
        replies
    }

    /// The fields of an `INFO` section (or of `everything`).
    pub fn info(&mut self, section: &str) -> BTreeMap<String, String> {
        fields(&reply::text(self.call(&["INFO", section])))
    }

    /// A number of an `INFO` section.
    ///
    /// # Panics
    /// When the section does not have the field, or it is not a number.
    #[track_caller]
    pub fn info_number(&mut self, section: &str, field: &str) -> u64 {
        let fields = self.info(section);
        let value = fields
            .get(field)
            .unwrap_or_else(|| panic!("INFO {section} has no {field}: {fields:?}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("{field} is not a number: {value}"))
    }

    /// `used_memory`, after waiting until other connections and their buffers are freed.
    pub fn used_memory_when_idle(&mut self) -> u64 {
        wait_until("this is the only connection", || {
            self.info_number("clients", "connected_clients") == 1
        });
        self.ok("MEMORY PURGE");
        self.info_number("memory", "used_memory")
    }

    /// `DEBUG DIGEST`: a hash of the whole data set (keys, values, databases, whether a key expires).
    pub fn digest(&mut self) -> String {
        reply::text(self.ok("DEBUG DIGEST"))
    }

    /// The pairs of `CONFIG GET pattern`.
    pub fn config(&mut self, pattern: &str) -> BTreeMap<String, String> {
        let items = reply::array(self.call(&["CONFIG", "GET", pattern]));
        let mut words = items.into_iter().map(reply::text);
        std::iter::from_fn(|| Some((words.next()?, words.next()?))).collect()
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The `field:value` lines of an `INFO` reply.
pub(crate) fn fields(info: &str) -> BTreeMap<String, String> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(field, value)| (field.to_owned(), value.trim_end().to_owned()))
        .collect()
}

fn shorten(arg: &[u8]) -> String {
    if arg.len() <= 60 {
        return line::quote(arg);
    }
    format!("{}... ({} bytes)", line::quote(&arg[..60]), arg.len())
}

/// A connection for raw bytes, for malformed requests and for replies on the wire.
pub struct RawSocket(TcpStream);

impl RawSocket {
    /// Connects to a server on this machine.
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn connect(port: u16) -> io::Result<RawSocket> {
        connect(port).map(RawSocket)
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Reads exactly `count` bytes.
    ///
    /// # Errors
    /// When the connection is closed before, or on a timeout.
    pub fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads until the server closes the connection.
    ///
    /// # Errors
    /// On a timeout.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request and asserts the exact bytes of the reply.
    ///
    /// # Panics
    /// When the bytes differ or do not arrive.
    #[track_caller]
    pub fn expect(&mut self, request: &[u8], reply: &[u8]) {
        self.send(request).expect("the server accepts the request");
        let got = self.read(reply.len()).expect("the server replies");
        assert!(
            got == reply,
            "request {}\nexpected {}\n     got {}",
            line::quote(request),
            line::quote(reply),
            line::quote(&got)
        );
    }
}

/// A type of arguments in [`args!`](crate::args).
pub trait Arg {
    /// Its bytes on the wire.
    fn to_arg(&self) -> Vec<u8>;
}

macro_rules! arg_as_bytes {
    ($($kind:ty),*) => {$(
        impl Arg for $kind {
            fn to_arg(&self) -> Vec<u8> {
                AsRef::<[u8]>::as_ref(self).to_vec()
            }
        }
    )*};
}

macro_rules! arg_as_number {
    ($($kind:ty),*) => {$(
        impl Arg for $kind {
            fn to_arg(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )*};
}

arg_as_bytes!(str, String, [u8], Vec<u8>);
arg_as_number!(i32, u32, i64, u64, usize);

impl<const N: usize> Arg for [u8; N] {
    fn to_arg(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl<T: Arg + ?Sized> Arg for &T {
    fn to_arg(&self) -> Vec<u8> {
        (**self).to_arg()
    }
}

/// The arguments of a command, from text, bytes and numbers: `client.call(&args!["RESTORE", key, 0, payload])`.
#[macro_export]
macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        [$($crate::client::Arg::to_arg(&$arg)),*]
    };
}

pub use args;
