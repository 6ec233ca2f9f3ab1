//! The kinds of Redis servers that countd supports.

use countint_tests::{Builder, Clock, Cluster, Server, reply, wait_until};
use std::cell::RefCell;
use std::fs;

/// A server and the layout of its keys.
pub struct TestStore {
    /// The server.
    pub server: Server,
    /// Whether it has loaded the module.
    pub has_module: bool,
    /// Whether counters of numeric IDs are rows of tables.
    pub has_tables: bool,
    /// Whether it is in cluster mode, where keys have hash tags.
    is_cluster: bool,
}

/// A server with the module.
pub fn module() -> TestStore {
    without_tags(Server::builder().append_only(true).start())
}

/// A server with the module and data whose counters are objects.
pub fn objects() -> TestStore {
    with_objects(module())
}

/// [`objects`] in cluster mode.
pub fn cluster_objects() -> TestStore {
    with_objects(cluster())
}

fn with_objects(store: TestStore) -> TestStore {
    let mut client = store.server.client();
    client.ok("HSET countd:layout storage:default object");
    TestStore {
        has_tables: false,
        ..store
    }
}

/// A server without the module.
pub fn plain() -> TestStore {
    TestStore {
        server: Server::builder().no_module().append_only(true).start(),
        has_module: false,
        has_tables: false,
        is_cluster: false,
    }
}

/// [`plain`], on a server that can load the module later.
pub fn adoptable() -> TestStore {
    let builder = Server::builder().no_module().append_only(true);
    TestStore {
        server: builder.config("enable-module-command local").start(),
        has_module: false,
        has_tables: false,
        is_cluster: false,
    }
}

/// [`adoptable`] in cluster mode.
pub fn cluster_adoptable() -> TestStore {
    let settings = |builder: Builder| {
        let builder = builder.no_module().append_only(true);
        builder.config("enable-module-command local")
    };
    TestStore {
        server: cluster_of(settings),
        has_module: false,
        has_tables: false,
        is_cluster: true,
    }
}

/// A cluster of three masters with the module, as one server: a node rejects a script whose keys are in different slots.
pub fn cluster() -> TestStore {
    with_tags(cluster_of(|builder| builder.append_only(true)))
}

/// The wall clocks of the nodes.
pub struct Clocks(Vec<Clock>);

impl Clocks {
    /// Sets the clocks `seconds` ahead of the machine, or behind if negative. Those of the nodes of a cluster differ by ten minutes.
    pub fn set(&self, seconds: i64) {
        for (clock, node) in self.0.iter().zip(0..) {
            clock.set(seconds + 600 * node);
        }
    }
}

/// A server with the module and a clock that the test sets.
pub fn module_with_clock() -> (TestStore, Clocks) {
    let clock = Clock::new();
    let store = without_tags(Server::builder().clock(&clock).start());
    (store, Clocks(vec![clock]))
}

/// [`cluster`] whose nodes have clocks that the test sets.
pub fn cluster_with_clocks() -> (TestStore, Clocks) {
    let clocks = RefCell::new(Vec::new());
    let server = cluster_of(|builder| {
        let clock = Clock::new();
        let builder = builder.clock(&clock);
        clocks.borrow_mut().push(clock);
        // Longer than any step: nodes measure with the wall clock how long another one has not answered.
        builder.config("cluster-node-timeout 4000000000")
    });
    let clocks = Clocks(clocks.into_inner());
    clocks.set(0);
    (with_tags(server), clocks)
}

/// A server with the module, in cluster mode, that serves all slots.
pub fn only_node() -> TestStore {
    with_tags(one_node_cluster())
}

/// A server with the module that is not in cluster mode.
fn without_tags(server: Server) -> TestStore {
    TestStore {
        server,
        has_module: true,
        has_tables: true,
        is_cluster: false,
    }
}

/// A server with the module, in cluster mode.
fn with_tags(server: Server) -> TestStore {
    TestStore {
        server,
        has_module: true,
        has_tables: true,
        is_cluster: true,
    }
}

/// Defines a test of each function for each kind of server.
macro_rules! for_each_store {
    ([$($store:ident)*] $($case:ident)*) => { $crate::support::stores::for_each_store!(@ [$($store)*] [$($case)*]); };
    (@ [$($store:ident)*] $cases:tt) => { $( mod $store { $crate::support::stores::for_each_store!(# $store $cases); } )* };
    (# $store:ident [$($case:ident)*]) => { $( #[test] fn $case() { super::$case($crate::support::stores::$store()); } )* };
}
pub(crate) use for_each_store;

/// A server in cluster mode that serves all slots. Increments of users' counters go through the outbox.
pub fn one_node_cluster() -> Server {
    let builder = Server::builder().append_only(true);
    let server = builder.config("cluster-enabled yes").start();
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until_up(std::slice::from_ref(&server));
    server
}

fn cluster_of(settings: impl Fn(Builder) -> Builder) -> Server {
    // A node that waits for the processor has not failed.
    let settings = |builder: Builder| settings(builder.config("cluster-node-timeout 30000"));
    Cluster::with(settings).into_server()
}

/// Waits until servers in cluster mode serve their slots, which takes a moment after a start.
pub fn wait_until_up(servers: &[Server]) {
    wait_until("all slots are served", || {
        servers.iter().flat_map(Server::nodes).all(|server| {
            let mut client = server.client();
            client.info("cluster")["cluster_enabled"] == "0"
                || reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
        })
    });
}

/// The hash that holds the position of a partition, in cluster mode or not.
pub fn positions(is_cluster: bool, partition: u16) -> String {
    match is_cluster {
        true => format!("x:cnt-update:{{{partition}}}:pos"),
        false => "x:cnt-update:pos".to_owned(),
    }
}

/// The RDB file of a node.
const RDB: &str = "dump.rdb";

/// The RDB files of all nodes.
pub struct Snapshot(Vec<Vec<u8>>);

impl TestStore {
    /// Kills the server with SIGKILL and starts it again.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server.start_again();
        wait_until_up(std::slice::from_ref(&self.server));
    }

    /// Takes a snapshot of each node. That needs no pause.
    pub fn snapshot(&self) -> Snapshot {
        self.server.client().ok("SAVE");
        let of_node = |node: &Server| fs::read(node.dir().join(RDB)).expect("a snapshot");
        Snapshot(self.server.nodes().map(of_node).collect())
    }

    /// Kills the nodes, and starts them from a snapshot in place of all data, without append-only files.
    pub fn start_from(&mut self, Snapshot(nodes): &Snapshot) {
        self.server.kill();
        for (node, rdb) in self.server.nodes().zip(nodes) {
            // The node would not look at the snapshot.
            let _ = fs::remove_dir_all(node.dir().join("appendonlydir"));
            fs::write(node.dir().join(RDB), rdb).expect("written");
        }
        self.server.configure("appendonly no");
        self.server.start_again();
        wait_until_up(std::slice::from_ref(&self.server));
    }

    /// The table of the counters of an entity (`note:1`), also where they are objects.
    pub fn table(&self, schema: &str, entity: &str, partitions: u16) -> String {
        let partition = TestStore::partition(entity, partitions);
        let (etype, _) = entity.split_once(':').expect("a type and an ID");
        self.numbered(&format!("tab:{schema}:{etype}"), partition)
    }

    /// The table of the counters of a user, also where they are objects.
    pub fn user_table(&self, uid: &str, partitions: u16) -> String {
        self.numbered("utab", TestStore::partition(uid, partitions))
    }

    /// The phases of migrations in the slot of a partition.
    pub fn storage_phases(&self, partition: u16) -> String {
        match self.is_cluster {
            true => format!("countd:storage:{{{partition}}}"),
            false => "countd:storage".to_owned(),
        }
    }

    fn hash_tag(&self, of: u16) -> String {
        if self.is_cluster {
            format!(":{{{of}}}")
        } else {
            String::new()
        }
    }

    /// The partition of an entity or user: MurmurHash2 as in Kafka, byte by byte.
    pub fn partition(of: &str, partitions: u16) -> u16 {
        const M: u32 = 0x5bd1_e995;
        let mut hash = 0x9747_b28c ^ of.len() as u32;
        for word in of.as_bytes().chunks(4) {
            let bytes = word.iter().rev();
            let mut value = bytes.fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            if word.len() < 4 {
                hash = (hash ^ value).wrapping_mul(M);
                break;
            }
            value = value.wrapping_mul(M);
            value = (value ^ value >> 24).wrapping_mul(M);
            hash = hash.wrapping_mul(M) ^ value;
        }
        hash = (hash ^ hash >> 13).wrapping_mul(M);
        hash ^= hash >> 15;
        ((hash & 0x7fff_ffff) % u32::from(partitions)) as u16
    }

    /// The key of the counters of an entity (`note:1`): its table, or its object.
    pub fn counters(&self, schema: &str, entity: &str, partitions: u16) -> String {
        let partition = TestStore::partition(entity, partitions);
        let (etype, eid) = entity.split_once(':').expect("a type and an ID");
        match self.has_tables && eid.parse::<u64>().is_ok() {
            true => self.numbered(&format!("tab:{schema}:{etype}"), partition),
            false => format!("cnt:{schema}:{entity}{}", self.hash_tag(partition)),
        }
    }

    /// The key of the totals of an entity (`note:1`) that are not in a table, and of all on data without tables of the module.
    pub fn totals(&self, metric: &str, entity: &str, partitions: u16) -> String {
        let (etype, _) = entity.split_once(':').expect("a type and an ID");
        let partition = TestStore::partition(entity, partitions);
        self.numbered(&format!("toth:{metric}:{etype}"), partition)
    }

    /// The key of the counters of a user: the table, or the object.
    pub fn user_counters(&self, uid: &str, partitions: u16) -> String {
        let partition = TestStore::partition(uid, partitions);
        match self.has_tables && uid.parse::<u64>().is_ok() {
            true => self.numbered("utab", partition),
            false => format!("ucnt:{uid}{}", self.hash_tag(partition)),
        }
    }

    /// A key of an entity or user, with 16 partitions.
    pub fn key(&self, before: &str, part: &str, entity: &str) -> String {
        format!(
            "{before}{part}{}",
            self.hash_tag(TestStore::partition(entity, 16))
        )
    }

    /// The numeric IDs of envelopes that a partition remembers forever.
    pub fn event_ids(&self, partition: u16) -> String {
        self.numbered("act:events", partition)
    }

    /// The stream of changes of an entity (`note:1`).
    pub fn changes(&self, entity: &str, partitions: u16) -> String {
        let partition = TestStore::partition(entity, partitions);
        format!("x:changes{}", self.hash_tag(partition))
    }

    /// What the nodes have logged of commands that users may not execute.
    pub fn refused_commands(&self) -> Vec<String> {
        let of_node = |node: &Server| reply::array(node.client().ok("ACL LOG"));
        let entries = self.server.nodes().flat_map(of_node);
        let entries = entries.map(|entry| reply::format(&entry));
        // The client library tells newer servers its name, and ignores the refusal.
        entries
            .filter(|entry| !entry.contains("client|setinfo"))
            .collect()
    }

    /// How often the nodes have executed a command, those of scripts included.
    pub fn calls_of(&self, command: &str) -> u64 {
        let name = format!("cmdstat_{command}");
        let of_node = |node: &Server| {
            let stats = node.client().info("commandstats");
            stats.get(&name).map_or(0, |stat| {
                let calls = stat.strip_prefix("calls=");
                let calls = calls.and_then(|calls| calls.split(',').next());
                calls.expect("calls").parse::<u64>().expect("a number")
            })
        };
        self.server.nodes().map(of_node).sum()
    }

    /// `full` for a server with the module and default settings, otherwise `few`: with fewer actions, the other kinds of servers have the same
    /// kills in a quarter of the time.
    pub fn full_or<T>(&self, full: T, few: T) -> T {
        match self.has_tables && !self.is_cluster {
            true => full,
            false => few,
        }
    }

    /// Whether the server is in cluster mode.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// The log of a partition.
    pub fn log(&self, partition: u16) -> String {
        self.numbered("x:cnt-update", partition)
    }

    /// The offsets that a sink has not read.
    pub fn hold_of_sink(&self, partition: u16) -> String {
        match self.is_cluster {
            true => format!("x:cnt-update:{{{partition}}}:sink"),
            false => "x:cnt-update:sink".to_owned(),
        }
    }

    /// The list of a partition's days that have daily facts.
    pub fn days(&self, partition: u16) -> String {
        self.numbered("countd:days", partition)
    }

    /// The key of a schema.
    pub fn schema(&self, id: &str) -> String {
        match self.is_cluster {
            true => format!("schema:{{{id}}}"),
            false => format!("schema:{id}"),
        }
    }

    /// The hash that holds the position of a partition.
    pub fn positions(&self, partition: u16) -> String {
        positions(self.is_cluster, partition)
    }

    /// The stream of a partition's dead letters.
    pub fn dead(&self, partition: u16) -> String {
        match self.is_cluster {
            true => format!("x:cnt-update:{{{partition}}}:dead"),
            false => "x:cnt-update:dead".to_owned(),
        }
    }

    fn numbered(&self, prefix: &str, partition: u16) -> String {
        if self.is_cluster {
            format!("{prefix}:{{{partition}}}")
        } else {
            format!("{prefix}:{partition}")
        }
    }
}

/// Moves every day of daily facts fifty years back.
const MOVE_DAYS_BACK: &str = "
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local day, name = entry:match('^(%d+):(.*)$')
  local before, old = 's:' .. name .. ':', string.format('%d', day - 500000)
  redis.call('RENAME', before .. day .. ARGV[1], before .. old .. ARGV[1])
  for key, text in pairs({ [KEYS[1]] = ':' .. name, [before .. 'days' .. ARGV[1]] = '' }) do
    redis.call('ZREM', key, day .. text)
    redis.call('ZADD', key, old, old .. text)
  end
end";

/// Moves all daily facts fifty years back.
pub fn move_days_back(store: &TestStore, partitions: u16) {
    let mut client = store.server.client();
    for partition in 0..partitions {
        let tag = store.hash_tag(partition);
        client.call(&["EVAL", MOVE_DAYS_BACK, "1", &store.days(partition), &tag]);
    }
}

/// Waits until all past days are compacted.
pub fn wait_until_compacted(store: &TestStore, partitions: u16) {
    let mut client = store.server.client();
    wait_until("past days are compacted", || {
        (0..partitions).all(|partition| {
            let key = store.days(partition);
            reply::int(client.ok(&format!("ZCOUNT {key} -inf 20200101"))) == 0
        })
    });
}
