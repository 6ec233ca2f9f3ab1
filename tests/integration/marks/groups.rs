//! `RBM.MMARK` and `RBM.MUNMARK` of concurrent clients on one entity, with single marks between them: replies, entries, set and
//! counter describe the same changes, also after `kill -9`.

use crate::traffic::{Random, Stop};
use countint_tests::{Client, Server, Value, args, env, reply, snapshot};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

const CLIENTS: u64 = 16;
const MEMBERS: u64 = 200;
const KILLS: u64 = 8;

/// The call that appended an entry: its client, and the number of the call.
type Serial = (u64, u64);

/// The members that a call changed, in the order of its arguments.
type Changed = Vec<u64>;

/// A client, and the replies to its calls that changed something.
struct Caller {
    number: u64,
    random: Random,
    sent: u64,
    acknowledged: HashMap<Serial, Changed>,
}

impl Caller {
    fn new(number: u64) -> Caller {
        Caller {
            number,
            random: Random(7 << 32 | number),
            sent: 0,
            acknowledged: HashMap::new(),
        }
    }

    /// Sends calls until `stop`, or until the server is killed.
    fn run(&mut self, port: u16, stop: &Stop) {
        let Ok(mut client) = Client::connect(port) else {
            return;
        };
        while !stop.is_set() {
            let serial = (self.number, self.sent);
            self.sent += 1;
            let (call, members) = self.call(serial);
            let Ok(answer) = client.try_call(&call) else {
                return;
            };
            let changed = changed(&answer, &members);
            if !changed.is_empty() {
                self.acknowledged.insert(serial, changed);
            }
        }
    }

    /// A mark of one or several members, with repetitions.
    fn call(&mut self, (client, nth): Serial) -> (Vec<Vec<u8>>, Vec<u64>) {
        let add = self.random.below(2) == 0;
        let many = self.random.below(4) > 0;
        let count = if many { 1 + self.random.below(40) } else { 1 };
        let members: Vec<u64> = (0..count).map(|_| self.random.below(MEMBERS)).collect();
        let command = match (add, many) {
            (true, true) => "RBM.MMARK",
            (false, true) => "RBM.MUNMARK",
            (true, false) => "RBM.MARK",
            (false, false) => "RBM.UNMARK",
        };
        let mut call = args![command, "likes"].to_vec();
        call.extend(members.iter().map(|member| member.to_string().into_bytes()));
        call.extend(args!["COUNT", "posts", "ROW", 7, 1, "EVENT", "log", "SEQ"]);
        call.extend(args!["add", u32::from(add), "by", client, "nth", nth]);
        if !many {
            call.extend(args!["members", members[0]]);
        }
        (call, members)
    }
}

/// The members that changed according to the reply.
fn changed(reply: &Value, members: &[u64]) -> Changed {
    let mut parts = reply::array(reply.clone()).into_iter();
    let first = parts.next().expect("the first element");
    let flags = match first {
        Value::Array(flags) => flags.into_iter().map(reply::int).collect(),
        flag => vec![reply::int(flag)],
    };
    assert_eq!(flags.len(), members.len(), "{}", reply::format(reply));
    let changed = members.iter().zip(flags).filter(|(_, flag)| *flag == 1);
    changed.map(|(member, _)| *member).collect()
}

/// Reads the stream from its start. The entries must be exactly the changes from the empty set to the stored one.
fn entries(client: &mut Client) -> HashMap<Serial, Changed> {
    let mut present = BTreeSet::new();
    let mut found = HashMap::new();
    for (n, entry) in reply::array(client.ok("XRANGE log - +"))
        .into_iter()
        .enumerate()
    {
        let printed = reply::format(&entry);
        let mut parts = reply::array(entry).into_iter();
        let id = reply::text(parts.next().expect("an id"));
        assert_eq!(id, format!("0-{}", n + 1));
        let data = reply::array(parts.next().expect("the fields"));
        let data: Vec<String> = data.into_iter().map(reply::text).collect();
        let [_, add, _, by, _, nth, field, members] = data.as_slice() else {
            panic!("{printed}");
        };
        assert_eq!(field, "members");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let members: Vec<u64> = members.split(',').map(number).collect();
        for &member in &members {
            let changes = match add.as_str() {
                "1" => present.insert(member),
                _ => present.remove(&member),
            };
            assert!(changes, "member {member} does not change: {printed}");
        }
        let again = found.insert((number(by), number(nth)), members);
        assert_eq!(again, None, "{printed}");
    }
    let stored = snapshot::scan(client, b"likes", false, usize::MAX);
    assert!(stored.iter().eq(&present), "the set is not that of the log");
    let counter = match client.ok("CTAB.GET posts 7 1") {
        Value::Nil => 0,
        value => reply::int(value),
    };
    assert_eq!(counter, present.len() as i64, "the counter");
    found
}

/// Runs all callers until `meanwhile` returns.
fn run(callers: &mut [Caller], port: u16, meanwhile: impl FnOnce()) {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        for caller in callers {
            let stop = &stop;
            scope.spawn(move || caller.run(port, stop));
        }
        let _stop = stop.on_drop();
        meanwhile();
    });
}

#[test]
fn groups_of_concurrent_clients_change_each_member_once() {
    let master = Server::start();
    let replica = master.replica();
    let mut callers: Vec<Caller> = (0..CLIENTS).map(Caller::new).collect();
    let mut client = master.client();
    run(&mut callers, master.port(), || {
        countint_tests::wait_until("there are entries", || {
            reply::int(client.ok("XLEN log")) > 3000
        });
    });
    let found = entries(&mut client);
    let marks = client.info_number("countint", "countint_marks");
    let unmarks = client.info_number("countint", "countint_unmarks");
    let card = reply::int(client.ok("RBM.CARD likes")) as u64;
    assert_eq!(marks - unmarks, card);
    let changes: usize = found.values().map(Vec::len).sum();
    assert_eq!(marks + unmarks, changes as u64);
    let mut acknowledged = HashMap::new();
    callers
        .iter_mut()
        .for_each(|caller| acknowledged.extend(caller.acknowledged.drain()));
    assert!(found == acknowledged, "the replies are not the entries");
    assert!(found.values().any(|members| members.len() > 1));
    master.wait_for_replica(&replica);
    assert_eq!(client.digest(), replica.client().digest());
}

#[test]
fn acknowledged_groups_survive_kills_with_appendfsync_always() {
    let mut server = Server::builder()
        .append_only(true)
        .config("appendfsync always")
        .start();
    let mut callers: Vec<Caller> = (0..CLIENTS).map(Caller::new).collect();
    let mut random = Random(8);
    for _ in 0..KILLS {
        let moment = Duration::from_millis(20 + random.below(300)).mul_f64(env::slow());
        run(&mut callers, server.port(), || {
            std::thread::sleep(moment);
            server.kill();
        });
        let logged = server.log().len();
        server.start_again();
        if server.log()[logged..].contains("short read while loading the AOF") {
            server.rewrite_aof();
        }
        let found = entries(&mut server.client());
        for caller in &callers {
            for (serial, members) in &caller.acknowledged {
                assert_eq!(found.get(serial), Some(members), "{serial:?}");
            }
        }
    }
    assert!(reply::int(server.client().ok("XLEN log")) > 100);
}
