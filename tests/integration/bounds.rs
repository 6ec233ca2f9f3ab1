//! Limits: the largest accepted size, and one more.

use countint_tests::{Client, Server, args, reply};
use roaring::RoaringTreemap;

const FIELDS: usize = 65_535;

fn printed(client: &mut Client, args: &[Vec<u8>]) -> String {
    reply::format(&client.call(args))
}

#[test]
fn longest_object_works_and_longer_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let bytes: Vec<u8> = (0..5 * FIELDS).map(|i| (i % 251) as u8).collect();
    let longer = vec![0; 5 * FIELDS + 5];
    assert_eq!(
        printed(&mut client, &args!["CINT.IMPORT", "k", bytes]),
        "OK"
    );
    assert_eq!(reply::bytes(client.ok("CINT.EXPORT k")), bytes);
    assert_eq!(reply::array(client.ok("CINT.DUMP k")).len(), FIELDS);
    let refused = "(error) ERR invalid payload";
    assert_eq!(
        printed(&mut client, &args!["CINT.IMPORT", "k2", longer]),
        refused
    );

    client.call(&args!["SET", "s", longer]);
    assert_eq!(
        printed(&mut client, &args!["CINT.ADOPT", "s", "LEN", FIELDS]),
        refused
    );
    client.call(&args!["SET", "s", bytes]);
    assert_eq!(
        printed(&mut client, &args!["CINT.ADOPT", "s", "LEN", FIELDS - 1]),
        refused
    );
    assert_eq!(
        printed(&mut client, &args!["CINT.ADOPT", "s", "LEN", FIELDS]),
        "OK"
    );
    assert_eq!(reply::bytes(client.ok("CINT.EXPORT s")), bytes);
}

#[test]
fn hash_of_too_many_fields_is_not_adopted() {
    let server = Server::start();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = (0..=FIELDS).map(|i| format!("f{i}").into_bytes()).collect();
    client.ok("HSET h f65534 7");
    let mut adopt = args!["CINT.ADOPT", "h", "FIELDS"].to_vec();
    adopt.extend_from_slice(&names);
    let refused = printed(&mut client, &adopt);
    assert!(
        refused.starts_with("(error) ERR"),
        "65,536 fields: {refused}"
    );
    client.expect("HGET h f65534", "\"7\"");
    adopt.pop();
    assert_eq!(printed(&mut client, &adopt), "OK");
    client.expect("CINT.LEN h", "(integer) 65535");
    client.expect("CINT.GET h 65534", "(integer) 7");
}

/// The server's peak memory shows that the reply was not built.
#[test]
fn reply_over_512_megabytes_is_refused_before_it_is_built() {
    let server = Server::start();
    let mut client = server.client();
    let max_keys = (512 << 20) / (5 * FIELDS);
    let mut page = args!["CINT.MREAD", FIELDS].to_vec();
    page.extend(std::iter::repeat_n(b"nosuch".to_vec(), max_keys + 1));
    let refused = "(error) ERR string exceeds maximum allowed size (512MB)";
    assert_eq!(printed(&mut client, &page), refused);
    let peak = client.info_number("memory", "used_memory_peak");
    assert!(peak < 64 << 20, "a peak of {peak} bytes");
    // The type is checked first.
    client.ok("SET nosuch 1");
    assert!(printed(&mut client, &page).starts_with("(error)"));
    client.ok("DEL nosuch");
    // A large page that is allowed.
    let mut page = args!["CINT.MREAD", FIELDS].to_vec();
    page.extend(std::iter::repeat_n(b"nosuch".to_vec(), 30));
    let bytes = reply::bytes(client.call(&page));
    assert_eq!(bytes.len(), 30 * 5 * FIELDS);
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn scan_returns_at_most_a_million_members() {
    let server = Server::start();
    let mut client = server.client();
    let set: RoaringTreemap = (1..=1_000_001).collect();
    let mut bytes = Vec::new();
    set.serialize_into(&mut bytes)
        .expect("writing to a vector cannot fail");
    client.call(&args!["RBM.IMPORT", "r", bytes]);
    // Only the first lines of each reply: the cursor and the number of members.
    let scan = |count: &str, head: &str| {
        server.raw().expect(
            format!("RBM.SCAN r 0 {count}\r\n").as_bytes(),
            head.as_bytes(),
        );
    };
    scan(
        "COUNT 9223372036854775807",
        "*2\r\n$7\r\n1000001\r\n*1000000\r\n$1\r\n1\r\n",
    );
    scan(
        "COUNT 1000001 REV",
        "*2\r\n$1\r\n2\r\n*1000000\r\n$7\r\n1000001\r\n",
    );
    scan("COUNT 1000000", "*2\r\n$7\r\n1000001\r\n*1000000\r\n");
    scan("COUNT 999999", "*2\r\n$7\r\n1000000\r\n*999999\r\n");
}

#[test]
fn malformed_requests_get_exact_errors() {
    let server = Server::start();
    let mut socket = server.raw();
    // The exact bytes of the reply in RESP2, RESP3 and for inline commands.
    socket.expect(b"cint.incrby k 0 5\r\n", b":5\r\n");
    socket.expect(b"*3\r\n$8\r\nCINT.GET\r\n$1\r\nk\r\n$1\r\n0\r\n", b":5\r\n");
    socket.expect(b"CINT.GET nosuch 0\r\n", b"$-1\r\n");
    socket.expect(b"CINT.MDUMP nosuch\r\n", b"*1\r\n$-1\r\n");
    socket.expect(b"RBM.ADD r 18446744073709551615\r\n", b":1\r\n");
    socket.expect(b"RBM.MAX r\r\n", b"$20\r\n18446744073709551615\r\n");
    socket.expect(b"RBM.SCAN nosuch 0\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n");
    socket.expect(b"CINT.GET k 99\r\n", b"-ERR index out of range\r\n");
    socket.expect(
        b"CINT.SET k 0\r\n",
        b"-ERR wrong number of arguments for 'cint.set' command\r\n",
    );
    socket.expect(b"HELLO 3\r\n", b"%");
    let mut socket = server.raw();
    socket.expect(
        b"*3\r\n$8\r\nCINT.GET\r\n$1\r\nk\r\n$-5\r\n",
        b"-ERR Protocol error: invalid bulk length\r\n",
    );
    // Errors never quote the request.
    let mut client = server.client();
    for text in [
        "\"\\r\\n+OK\\r\\n\"",
        "\"\\xff\\xfe\"",
        "\"\\x00\"",
        "\u{1d54f}",
    ] {
        client.expect(
            &format!("CINT.GET k {text}"),
            "(error) ERR value is not an integer or out of range",
        );
        client.expect(
            &format!("CINT.INCRBY k 0 1 {text}"),
            "(error) ERR syntax error",
        );
        client.expect(&format!("RBM.SCAN k {text}"), "(error) ERR invalid cursor");
        client.expect(&format!("RBM.OP {text} d k"), "(error) ERR syntax error");
    }
}

#[test]
fn nulls_are_resp3_nulls() {
    let server = Server::start();
    let mut socket = server.raw();
    socket
        .send(b"HELLO 3\r\nPING marker\r\n")
        .expect("the server listens");
    // HELLO's map differs between servers, so skip to the reply of the marker.
    let mut tail = Vec::new();
    while !tail.ends_with(b"$6\r\nmarker\r\n") {
        tail.extend(socket.read(1).expect("the server replies"));
    }
    for request in [
        "CINT.GET k 0",
        "CINT.DUMP k",
        "CINT.EXPORT k",
        "RBM.MIN r",
        "RBM.RANK r 1",
        "RBM.SELECT r 0",
        "RBM.EXPORT r",
        "RBM.INFO r",
    ] {
        socket.expect(format!("{request}\r\n").as_bytes(), b"_\r\n");
    }
    socket.expect(b"CINT.MGET k 0 1\r\n", b"*2\r\n_\r\n_\r\n");
    socket.expect(b"CINT.MDUMP k\r\n", b"*1\r\n_\r\n");
    socket.expect(b"RBM.MCONTAINS r 1\r\n", b"*1\r\n:0\r\n");
    socket.expect(b"RBM.SCAN r 0\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n");
    socket.expect(b"RBM.ADD r 1\r\n", b":1\r\n");
    socket.expect(
        b"RBM.INFO r\r\n",
        b"%3\r\n$8\r\nencoding\r\n$7\r\ncompact\r\n$11\r\ncardinality\r\n:1\r\n$5\r\nbytes\r\n:",
    );
}
