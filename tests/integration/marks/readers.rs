//! Marks wake readers that are blocked on a stream.

use crate::writes::Route;
use countint_tests::{Client, Server, client::encode, line, reply, wait_until};

const WAITS: [&str; 3] = [
    "XREAD BLOCK 0 STREAMS x $",
    "XREAD COUNT 5 BLOCK 0 STREAMS other x $ $",
    "XREADGROUP GROUP g me BLOCK 0 STREAMS x >",
];

fn blocked(client: &mut Client, count: u64) {
    wait_until("the readers wait", || {
        client.info_number("clients", "blocked_clients") == count
    });
}

/// Blocked readers of the stream `x`.
fn readers(server: &Server, waits: &[&str]) -> Vec<Client> {
    let send = |wait: &&str| {
        let mut reader = server.client();
        let words = line::split(wait).expect("valid quotes");
        reader.send(&encode(&words)).expect("the server listens");
        reader
    };
    let readers = waits.iter().map(send).collect();
    blocked(&mut server.client(), waits.len() as u64);
    readers
}

fn read(reader: &mut Client) -> String {
    reply::format(&reader.read().unwrap_or_else(|why| panic!("{why}")))
}

#[test]
fn marks_wake_blocked_readers() {
    let server = Server::start();
    let mut client = server.client();
    let calls = [
        "RBM.MARK k 1 EVENT x SEQ f v",
        "RBM.MARK k 1 COUNT c 0 EVENT x SEQ MAXLEN 9 f v",
        "RBM.UNMARK k 2 COUNT c 0 EVENT x SEQ f v",
    ];
    for call in calls {
        for route in Route::ALL {
            client.ok("FLUSHALL");
            client.ok("RBM.ADD k 2");
            client.ok("XGROUP CREATE x g $ MKSTREAM");
            let mut readers = readers(&server, &WAITS);
            // Calls that change nothing or are refused do not wake them.
            client.ok("RBM.MARK k 2 EVENT x SEQ f v");
            client.ok("RBM.UNMARK k 3 EVENT x SEQ f v");
            client.line("RBM.MARK k 3 COUNT c 5 EVENT x SEQ f v");
            blocked(&mut client, WAITS.len() as u64);
            route.send(&mut client, call);
            for (reader, wait) in readers.iter_mut().zip(WAITS) {
                let got = read(reader);
                let entry = "1) 1) \"0-1\"\n         2) 1) \"f\"\n            2) \"v\"";
                assert!(got.contains(entry), "{wait}, {call} ({route:?}):\n{got}");
            }
        }
    }
}

/// A reader that blocks again after each entry misses no entry of concurrent writers.
#[test]
fn blocked_reader_misses_no_entry() {
    let server = Server::start();
    let marks = 500;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                for i in 0..marks {
                    let member = writer * marks + i;
                    client.ok(&format!("RBM.MARK k {member} EVENT x SEQ member {member}"));
                }
            });
        }
        let (mut reader, mut seen) = (server.client(), 0);
        while seen < 4 * marks {
            let reply = reader.ok(&format!("XREAD BLOCK 0 STREAMS x 0-{seen}"));
            let streams = reply::array(reply);
            let stream = reply::array(streams.into_iter().next().expect("one stream"));
            for entry in reply::array(stream[1].clone()) {
                seen += 1;
                let id = reply::text(reply::array(entry)[0].clone());
                assert_eq!(id, format!("0-{seen}"));
            }
        }
    });
    server.client().expect("RBM.CARD k", "(integer) 2000");
}
