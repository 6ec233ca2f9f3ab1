//! A client of server-sent events.

use countint_tests::env::deadline;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// An event with data.
#[derive(Clone, Debug)]
pub struct SseEvent {
    /// Its type; `message` by default.
    pub kind: String,
    /// Its data.
    pub data: Json,
}

impl SseEvent {
    /// The entities of the event, as `note:7`.
    pub fn entities(&self) -> Vec<String> {
        let items = self.data.as_array().expect("a list").iter();
        let text = |item: &Json, field: &str| item[field].as_str().expect("a string").to_owned();
        items
            .map(|item| format!("{}:{}", text(item, "etype"), text(item, "eid")))
            .collect()
    }
}

/// What arrives: an event, or the ID of an event (also of one without data).
enum Received {
    Id(String),
    Event(SseEvent),
}

/// A stream of server-sent events.
pub struct EventStream {
    /// The status of the response.
    pub status: u16,
    /// The ID of the last event.
    pub last_id: String,
    /// Whether a reset has arrived.
    pub is_reset: bool,
    /// The entities that have arrived.
    pub seen: BTreeSet<String>,
    connection: TcpStream,
    received: Option<Receiver<Received>>,
    pending: Option<BufReader<TcpStream>>,
}

impl EventStream {
    /// Opens a stream. Waits for the head of the response.
    pub fn open(port: u16, path: &str, headers: &[(&str, &str)]) -> EventStream {
        let mut stream = EventStream::open_unread(port, path, headers);
        stream.read();
        stream
    }

    /// Opens a stream without reading its events.
    pub fn open_unread(port: u16, path: &str, headers: &[(&str, &str)]) -> EventStream {
        EventStream::try_open(port, path, headers).expect("a response")
    }

    /// Opens a stream. Fails if there is no response.
    pub fn try_open(port: u16, path: &str, headers: &[(&str, &str)]) -> Option<EventStream> {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
        connection.set_read_timeout(Some(deadline(60))).ok()?;
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: countd\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        connection
            .write_all(format!("{request}\r\n").as_bytes())
            .ok()?;
        let mut reader = BufReader::new(connection.try_clone().ok()?);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line).ok()?;
        }
        Some(EventStream {
            status,
            last_id: String::new(),
            is_reset: false,
            seen: BTreeSet::new(),
            connection,
            received: None,
            pending: Some(reader),
        })
    }

    /// Reads the events from now on.
    pub fn read(&mut self) {
        let reader = self.pending.take().expect("not read yet");
        let (to, received) = mpsc::channel();
        thread::spawn(move || read_events(reader, |one| to.send(one).is_ok()));
        self.received = Some(received);
    }

    /// The next event with data; `None` after the end of the stream or a time without one.
    pub fn next_within(&mut self, timeout: Duration) -> Result<SseEvent, RecvTimeoutError> {
        let received = self.received.as_ref().expect("the stream is read");
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match received.recv_timeout(left)? {
                Received::Id(id) => self.last_id = id,
                Received::Event(event) if event.kind == "reset" => {
                    self.is_reset = true;
                    return Ok(event);
                }
                Received::Event(event) => {
                    self.seen.extend(event.entities());
                    return Ok(event);
                }
            }
        }
    }

    /// Reads until an ID has arrived.
    #[track_caller]
    pub fn wait_for_id(&mut self) {
        let received = self.received.as_ref().expect("the stream is read");
        match received.recv_timeout(deadline(60)) {
            Ok(Received::Id(id)) => self.last_id = id,
            _ => panic!("no ID"),
        }
    }

    /// Reads until these entities have arrived since the last call of [`forget`](Self::forget).
    #[track_caller]
    pub fn wait_for(&mut self, entities: &[&str]) {
        while !entities.iter().all(|entity| self.seen.contains(*entity)) {
            let next = self.next_within(deadline(60));
            assert!(next.is_ok(), "{entities:?} of {:?}", self.seen);
        }
    }

    /// Reads until a reset has arrived.
    #[track_caller]
    pub fn wait_for_reset(&mut self) {
        while !self.is_reset {
            let next = self.next_within(deadline(60));
            assert!(next.is_ok(), "no reset: {next:?}");
        }
    }

    /// Reads until the stream ends.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        while match self.next_within(deadline(60)) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, RecvTimeoutError::Disconnected, "the stream ends");
                false
            }
        } {}
    }

    /// Forgets what has arrived.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.is_reset = false;
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        // The server may have closed it.
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

/// Reads the chunks of a response until it ends, and passes on its events while the receiver wants them.
fn read_events(mut reader: BufReader<TcpStream>, mut pass: impl FnMut(Received) -> bool) {
    let mut text = String::new();
    while let Some(chunk) = read_chunk(&mut reader) {
        text.push_str(&chunk);
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            let field = |name: &str| {
                let lines = event.lines();
                let prefix = format!("{name}: ");
                lines
                    .filter_map(move |line| line.strip_prefix(&prefix).map(str::to_owned))
                    .next()
            };
            if let Some(data) = field("data") {
                let event = SseEvent {
                    kind: field("event").unwrap_or("message".to_owned()),
                    data: serde_json::from_str(&data).expect("JSON"),
                };
                if !pass(Received::Event(event)) {
                    return;
                }
            }
            // The client has the event before it takes the ID.
            if let Some(id) = field("id")
                && !pass(Received::Id(id))
            {
                return;
            }
        }
    }
}

fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let len = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; len + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(len);
    (len > 0).then(|| String::from_utf8(chunk).expect("UTF-8"))
}
