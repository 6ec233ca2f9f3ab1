//! Reads ten posts repeatedly: the set, the counter and the stream of each must agree.

use countint_tests::{Client, Value, args, reply, snapshot};
use std::collections::{BTreeSet, HashMap};

/// The number of posts.
pub const POSTS: u64 = 10;

/// A post, by its number.
#[derive(Clone, Copy)]
pub struct Post(pub u64);

impl Post {
    /// All posts.
    pub fn all() -> impl Iterator<Item = Post> {
        (0..POSTS).map(Post)
    }

    /// The set of the users that like it.
    pub fn set(self) -> String {
        format!("likes:{}", self.0)
    }

    /// The arguments after COUNT: a row of a shared table for every third post, otherwise an object of its own.
    pub fn counter(self) -> Vec<Vec<u8>> {
        match self.0 % 3 {
            2 => args!["posts", "ROW", self.0, self.idx()].to_vec(),
            _ => args![format!("post:{}", self.0), self.idx()].to_vec(),
        }
    }

    /// The command that reads the counter.
    fn read_counter(self) -> Vec<Vec<u8>> {
        let mut call = args!["CINT.GET"].to_vec();
        call.extend(self.counter());
        if call.len() == 5 {
            call[0] = b"CTAB.GET".to_vec();
            call.remove(2);
        }
        call
    }

    /// The counter of its likes.
    fn idx(self) -> u64 {
        self.0 % 5
    }

    /// The stream of its events.
    pub fn stream(self) -> String {
        format!("log:{}", self.0)
    }

    /// Whether the stream's ids are `0-*`.
    pub fn seq(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// The writer of a change, and its sequence number.
pub type Serial = (u64, u64);

/// A change, as recorded in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether it is a mark, not an unmark.
    pub add: bool,
    /// The post.
    pub post: u64,
    /// The member.
    pub member: u64,
    /// The counter after it.
    pub value: u64,
}

/// Compares sets, counters and streams of all posts.
#[derive(Default)]
pub struct Checker {
    histories: Vec<History>,
    changes: HashMap<Serial, Change>,
}

impl Checker {
    /// Reads the new entries of every stream, and compares with the counters and the sets.
    ///
    /// # Panics
    /// When they do not agree, or a member's entries do not alternate.
    pub fn read(&mut self, client: &mut Client) {
        self.histories.resize_with(POSTS as usize, History::default);
        for (post, history) in Post::all().zip(&mut self.histories) {
            history.read(post, client, &mut self.changes);
            history.compare(post, client);
        }
    }

    /// The changes read since the last call.
    pub fn take_changes(&mut self) -> HashMap<Serial, Change> {
        std::mem::take(&mut self.changes)
    }

    /// The number of entries read so far.
    pub fn entries(&self) -> u64 {
        self.histories.iter().map(|history| history.entries).sum()
    }
}

/// The state of a post according to its stream.
#[derive(Default)]
struct History {
    last: Option<String>,
    entries: u64,
    marks: u64,
    unmarks: u64,
    present: BTreeSet<u64>,
}

impl History {
    fn read(&mut self, post: Post, client: &mut Client, changes: &mut HashMap<Serial, Change>) {
        loop {
            let start = match &self.last {
                Some(id) => format!("({id}"),
                None => "-".to_owned(),
            };
            let call = args!["XRANGE", post.stream(), start, "+", "COUNT", 2000];
            let page = reply::array(client.call(&call));
            if page.is_empty() {
                return;
            }
            for entry in page {
                let (serial, change) = self.entry(post, entry);
                let again = changes.insert(serial, change);
                assert_eq!(again, None, "{serial:?} occurs twice: {change:?}");
            }
        }
    }

    fn entry(&mut self, post: Post, entry: Value) -> (Serial, Change) {
        let [id, data] = parts(entry);
        let id = reply::text(id);
        let [
            op_name,
            op,
            member_name,
            member,
            by_name,
            user,
            nth_name,
            nth,
        ] = parts(data);
        let names = [op_name, member_name, by_name, nth_name].map(reply::text);
        assert_eq!(names, ["op", "member", "by", "nth"]);
        let [member, user, nth] = [member, user, nth].map(|n| reply::int(n) as u64);
        let add = reply::int(op) == 1;
        self.entries += 1;
        // Marks and unmarks of a member must alternate.
        let (counted, alternates) = match add {
            true => (&mut self.marks, self.present.insert(member)),
            false => (&mut self.unmarks, self.present.remove(&member)),
        };
        assert!(
            alternates,
            "{} {id}: two entries of member {member} in a row say the same",
            post.stream()
        );
        *counted += 1;
        if post.seq() {
            assert_eq!(id, format!("0-{}", self.entries), "{}", post.stream());
        }
        self.last = Some(id);
        let change = Change {
            add,
            post: post.0,
            member,
            value: self.present.len() as u64,
        };
        ((user, nth), change)
    }

    fn compare(&self, post: Post, client: &mut Client) {
        let mut number = |call: &[Vec<u8>]| match client.call(call) {
            Value::Nil => 0, // not written yet
            value => reply::int(value) as u64,
        };
        let counter = number(&post.read_counter());
        let card = number(&args!["RBM.CARD", post.set()]);
        let length = number(&args!["XLEN", post.stream()]);
        let balance = self.marks - self.unmarks;
        assert_eq!(
            [counter, card, length],
            [balance, balance, self.entries],
            "the counter, the set and the stream of post {}",
            post.0
        );
        let members = snapshot::scan(client, post.set().as_bytes(), false, usize::MAX);
        assert!(
            members.iter().eq(&self.present),
            "the members of {} are not those of {}",
            post.set(),
            post.stream()
        );
    }
}

/// The elements of an array of `N`.
fn parts<const N: usize>(value: Value) -> [Value; N] {
    let printed = reply::format(&value);
    <[Value; N]>::try_from(reply::array(value))
        .unwrap_or_else(|_| panic!("expected {N} elements: {printed}"))
}
