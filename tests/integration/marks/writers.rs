//! 64 users, each with its own connection, mark and unmark the same members of the same posts at random, and record the
//! replies.

use super::checker::{Change, POSTS, Post, Serial};
use crate::traffic::{Random, Stop};
use countint_tests::{Client, Server, Value, args, reply};
use std::collections::HashMap;
use std::time::Duration;

const USERS: u64 = 64;
const MEMBERS: u64 = 1000;

/// The acknowledged changes that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedLoss {
    /// None.
    Nothing,
    /// The last changes of each user.
    LastOfEachWriter,
}

/// The users and their acknowledged changes.
pub struct Writers {
    users: Vec<Writer>,
}

struct Writer {
    number: u64,
    random: Random,
    sent: u64,
    acknowledged: Vec<(Serial, Change)>,
    unanswered: Option<Serial>,
}

impl Writers {
    /// Users whose choices depend on `seed` only.
    pub fn new(seed: u64) -> Writers {
        let user = |number| Writer {
            number,
            random: Random(seed << 32 | number),
            sent: 0,
            acknowledged: Vec::new(),
            unanswered: None,
        };
        Writers {
            users: (0..USERS).map(user).collect(),
        }
    }

    /// Runs all users for `time`.
    pub fn run(&mut self, port: u16, time: Duration) {
        self.run_during(port, || std::thread::sleep(time));
        let lost: Vec<_> = self.users.iter().filter_map(|u| u.unanswered).collect();
        assert!(lost.is_empty(), "no reply to {lost:?}");
    }

    /// Runs all users for `time`, then kills the server.
    pub fn run_until_killed(&mut self, server: &mut Server, time: Duration) {
        self.run_during(server.port(), || {
            std::thread::sleep(time);
            server.kill();
        });
    }

    fn run_during(&mut self, port: u16, meanwhile: impl FnOnce()) {
        let stop = Stop::default();
        std::thread::scope(|scope| {
            for user in &mut self.users {
                let stop = &stop;
                scope.spawn(move || user.write(port, stop));
            }
            let _stop = stop.on_drop();
            meanwhile();
        });
    }

    /// Compares the changes read since the last call with those acknowledged since then. Returns the number of missing
    /// ones.
    ///
    /// # Panics
    /// When a change differs from its acknowledgement, more is missing than `lost` allows, or a change was read that no
    /// writer sent or that was acknowledged as changing nothing.
    pub fn reconcile(&mut self, mut read: HashMap<Serial, Change>, lost: AllowedLoss) -> usize {
        let mut missing = 0;
        for user in &mut self.users {
            let mut gone = 0;
            for (serial, acknowledged) in user.acknowledged.drain(..) {
                match read.remove(&serial) {
                    Some(found) => {
                        assert_eq!(found, acknowledged, "{serial:?}");
                        assert_eq!(
                            gone, 0,
                            "{serial:?} exists, but an earlier change is missing"
                        );
                    }
                    None => gone += 1,
                }
            }
            assert!(
                gone == 0 || lost == AllowedLoss::LastOfEachWriter,
                "{gone} acknowledged changes of user {} are missing",
                user.number
            );
            missing += gone;
            if let Some(serial) = user.unanswered.take() {
                read.remove(&serial);
            }
        }
        assert!(read.is_empty(), "never acknowledged: {read:?}");
        missing
    }
}

impl Writer {
    /// Writes until it is stopped or the connection is lost.
    fn write(&mut self, port: u16, stop: &Stop) {
        let Ok(mut client) = Client::connect(port) else {
            return; // the server was killed before the connection
        };
        while !stop.is_set() {
            let (serial, mut change) = self.next();
            match client.try_call(&call(serial, &change)) {
                Ok(Value::Array(reply)) => {
                    let [changed, value] = reply.try_into().expect("changed and value");
                    if reply::int(changed) == 1 {
                        change.value = reply::int(value) as u64;
                        self.acknowledged.push((serial, change));
                    }
                }
                Ok(other) => panic!("{change:?}: {}", reply::format(&other)),
                Err(_) => {
                    self.unanswered = Some(serial);
                    return;
                }
            }
        }
    }

    fn next(&mut self) -> (Serial, Change) {
        self.sent += 1;
        let random = &mut self.random;
        let change = Change {
            add: random.below(2) == 0,
            post: random.below(POSTS),
            member: random.below(MEMBERS),
            value: 0,
        };
        ((self.number, self.sent), change)
    }
}

fn call((user, nth): Serial, change: &Change) -> Vec<Vec<u8>> {
    let post = Post(change.post);
    let (command, op) = if change.add {
        ("RBM.MARK", "1")
    } else {
        ("RBM.UNMARK", "-1")
    };
    let mut call = args![command, post.set(), change.member].to_vec();
    call.extend(args!["COUNT"]);
    call.extend(post.counter());
    call.extend(args!["EVENT", post.stream()]);
    if post.seq() {
        call.extend(args!["SEQ"]);
    }
    call.extend(args!["op", op, "member", change.member]);
    call.extend(args!["by", user, "nth", nth]);
    call
}
