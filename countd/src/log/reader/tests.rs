//! Tests of decoding replies.

use super::*;
use crate::log::entry::EntryKind;

const REPLY: &[u8] =
    b"*2\r\n*2\r\n$4\r\nlog1\r\n*2\r\n*2\r\n$3\r\n0-7\r\n*2\r\n$1\r\ne\r\n$4\r\n{\r\n}\r\n\
    *2\r\n$3\r\n0-8\r\n*4\r\n$1\r\nd\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n\
    *2\r\n$4\r\nlog2\r\n*1\r\n*2\r\n$4\r\n0-10\r\n*2\r\n$1\r\nd\r\n$0\r\n\r\n";

/// Reads `reply` from a server that sends `piece` bytes at a time.
async fn read(reply: &[u8], piece: usize) -> Result<Vec<StreamEntries>, RedisError> {
    let read = read_bytes(reply, piece, 1_000).await;
    read.map(|reply| {
        assert!(!reply.is_too_large);
        reply.streams
    })
}

/// The same with a limit of `max_bytes`.
async fn read_bytes(reply: &[u8], piece: usize, max_bytes: usize) -> Result<ReadReply, RedisError> {
    let (ours, theirs) = tokio::io::duplex(piece);
    let mut reader = StreamReader {
        socket: Box::new(ours),
        buffer: BytesMut::new(),
    };
    let reply = reply.to_vec();
    let (mut request, mut answer) = tokio::io::split(theirs);
    let requests = tokio::spawn(async move { request.read_to_end(&mut Vec::new()).await });
    let replies = tokio::spawn(async move {
        let sent = answer.write_all(&reply).await;
        sent.and(answer.shutdown().await)
    });
    let read = reader
        .read(&redis::cmd("XREAD"), Duration::from_secs(60), max_bytes)
        .await;
    drop(reader);
    // The reader may have closed the connection before the end of the reply.
    let _ = (requests.await, replies.await);
    read
}

fn entry(offset: u64, kind: EntryKind, payload: &str) -> LogEntry {
    let payload = payload.as_bytes().to_vec();
    LogEntry {
        offset,
        kind,
        size: payload.len() + 1,
        payload,
        is_whole: true,
    }
}

fn stream(name: &str, entries: Vec<LogEntry>) -> StreamEntries {
    StreamEntries {
        name: name.as_bytes().to_vec(),
        entries,
        ends_at_foreign_id: false,
    }
}

#[tokio::test]
async fn foreign_id_ends_the_entries_of_a_stream() {
    let reply = b"*2\r\n*2\r\n$1\r\na\r\n*3\r\n*2\r\n$3\r\n0-7\r\n*2\r\n$1\r\ne\r\n$1\r\nx\r\n\
        *2\r\n$3\r\n1-7\r\n*2\r\n$1\r\ne\r\n$1\r\nx\r\n*2\r\n$3\r\n1-8\r\n*0\r\n\
        *2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n0-1\r\n*2\r\n$1\r\ne\r\n$1\r\ny\r\n";
    let cut = StreamEntries {
        ends_at_foreign_id: true,
        ..stream("a", vec![entry(7, EntryKind::Event, "x")])
    };
    let whole = stream("b", vec![entry(1, EntryKind::Event, "y")]);
    assert_eq!(read(reply, 64).await.expect("a reply"), [cut, whole]);
}

#[tokio::test]
async fn replies_are_decoded_in_pieces_of_any_size() {
    let expected = vec![
        stream(
            "log1",
            vec![
                entry(7, EntryKind::Event, "{\r\n}"),
                LogEntry {
                    size: 4,
                    ..entry(8, EntryKind::Unknown, "x")
                },
            ],
        ),
        stream("log2", vec![entry(10, EntryKind::Derived, "")]),
    ];
    for piece in [1, 2, 3, 7, 64, 1_000] {
        let streams = read(REPLY, piece).await.expect("a reply");
        assert_eq!(streams, expected, "pieces of {piece}");
    }
    for nothing in [&b"*-1\r\n"[..], b"*0\r\n"] {
        assert_eq!(read(nothing, 64).await.expect("a reply"), []);
    }
}

#[tokio::test]
async fn error_replies_keep_their_code_and_malformed_replies_are_errors() {
    let refused = read(b"-LOADING it is\r\n", 64).await;
    assert_eq!(
        refused
            .err()
            .and_then(|error| error.code().map(str::to_owned))
            .as_deref(),
        Some("LOADING")
    );
    for bad in [
        &b"+OK\r\n"[..],
        b"*x\r\n",
        b"*1\r\n*3\r\n",
        b"*1\r\n*2\r\n$-1\r\n",
        b"*99999999999999999999\r\n",
        &REPLY[..40],
    ] {
        let read = read(bad, 64).await;
        assert!(read.is_err(), "{}", String::from_utf8_lossy(bad));
    }
}

/// A reply with one stream, whose entries have these fields and values.
fn reply(entries: &[&[&[u8]]]) -> Vec<u8> {
    let mut reply = format!("*1\r\n*2\r\n$1\r\na\r\n*{}\r\n", entries.len()).into_bytes();
    for (offset, strings) in (1..).zip(entries) {
        let id = format!("0-{offset}");
        let head = format!("*2\r\n${}\r\n{id}\r\n*{}\r\n", id.len(), strings.len());
        reply.extend(head.as_bytes());
        for string in *strings {
            reply.extend(format!("${}\r\n", string.len()).as_bytes());
            reply.extend(*string);
            reply.extend(b"\r\n");
        }
    }
    reply
}

#[tokio::test]
async fn rest_of_a_large_reply_is_not_read() {
    let payload = [b'x'; 600];
    let bytes = reply(&[&[b"e", &payload], &[b"o", &payload], &[b"e", b"y"]]);
    let read = read_bytes(&bytes, 64, 1_000).await.expect("a reply");
    assert!(read.is_too_large);
    let offsets: Vec<u64> = read.streams[0].entries.iter().map(|e| e.offset).collect();
    assert_eq!(offsets, [1, 2]);
    let read = read_bytes(&bytes, 64, 2_000).await.expect("a reply");
    assert!(!read.is_too_large);
    assert_eq!(read.streams[0].entries.len(), 3);
}

#[tokio::test]
async fn payload_of_a_large_entry_is_truncated() {
    let max_bytes = BUFFERED_ENTRY_BYTES * 2;
    let (fits, long) = (vec![b'y'; max_bytes], vec![b'z'; max_bytes + 1]);
    let bytes = reply(&[&[b"e", &long], &[b"e", b"x"], &[&long, b"x", &long, &long]]);
    let read = read_bytes(&bytes, 100_000, max_bytes)
        .await
        .expect("a reply");
    assert!(!read.is_too_large);
    let expected = [
        LogEntry {
            offset: 1,
            kind: EntryKind::Event,
            payload: long[..TRUNCATED_PAYLOAD_BYTES].to_vec(),
            size: long.len() + 1,
            is_whole: false,
        },
        entry(2, EntryKind::Event, "x"),
        LogEntry {
            size: 3 * long.len() + 1,
            ..entry(3, EntryKind::Unknown, "x")
        },
    ];
    assert_eq!(read.streams[0].entries, expected);
    // An entry of the maximum size is read alone, or by the next read.
    let bytes = reply(&[&[b"e", &fits], &[b"e", &fits]]);
    let read = read_bytes(&bytes, 100_000, max_bytes)
        .await
        .expect("a reply");
    assert!(read.is_too_large);
    let entries = &read.streams[0].entries;
    assert!(entries.len() == 1 && entries[0].is_whole && entries[0].payload == fits);
    let bytes = reply(&[&[b"e", b"x"], &[b"e", &fits], &[b"e", b"x"]]);
    let read = read_bytes(&bytes, 100_000, max_bytes)
        .await
        .expect("a reply");
    assert!(read.is_too_large);
    assert_eq!(read.streams[0].entries, [entry(1, EntryKind::Event, "x")]);
}

/// `RBM.MMARK` appends the members that changed in a field of their own.
#[tokio::test]
async fn groups_are_read_with_their_users() {
    let group: &[&[u8]] = &[b"g", b"{}", b"members", b"1,2"];
    let bytes = reply(&[
        group,
        &[b"g", b"{\"uids\":[\"3\"]}"],
        &[b"g", b"{}", b"others", b"1,2"],
        &[b"g", b"{}", b"members", b"\"]}"],
        &[b"e", b"{}", b"members", b"1,2"],
    ]);
    let streams = read(&bytes, 64).await.expect("a reply");
    let found = streams[0].entries.iter().map(|entry| {
        let payload = String::from_utf8_lossy(&entry.payload).into_owned();
        (entry.kind, payload, entry.size)
    });
    let found: Vec<_> = found.collect();
    let users = |json: &str| (EntryKind::Group, json.to_owned());
    assert_eq!(
        [&found[0], &found[1]].map(|(kind, json, _)| (*kind, json.clone())),
        [
            users("{,\"uids\":[\"1\",\"2\"]}"),
            users("{\"uids\":[\"3\"]}")
        ]
    );
    assert_eq!(
        found[0].2,
        group.iter().map(|text| text.len()).sum::<usize>()
    );
    let others = found[2..].iter().map(|(kind, ..)| *kind);
    assert_eq!(others.collect::<Vec<_>>(), [EntryKind::Unknown; 3]);
}
