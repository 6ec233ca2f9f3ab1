//! The kinds of Redis servers that countd supports.

use countint_tests::{Server, reply, wait_until};

/// A server and the layout of its keys.
pub struct TestStore {
    /// The server.
    pub server: Server,
    /// Whether it has loaded the module.
    pub has_module: bool,
    /// Whether it is in cluster mode, where keys have hash tags.
    is_cluster: bool,
}

/// A server with the module.
pub fn module() -> TestStore {
    TestStore {
        server: Server::builder().append_only(true).start(),
        has_module: true,
        is_cluster: false,
    }
}

/// A server without the module.
pub fn plain() -> TestStore {
    TestStore {
        server: Server::builder().no_module().append_only(true).start(),
        has_module: false,
        is_cluster: false,
    }
}

/// A server with the module, in cluster mode: the server rejects a script whose keys are in different slots.
pub fn cluster() -> TestStore {
    TestStore {
        server: one_node_cluster(),
        has_module: true,
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
    let server = Server::builder()
        .config("cluster-enabled yes")
        .append_only(true)
        .start();
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until_up(&server);
    server
}

/// Waits until a server in cluster mode serves its slots, which takes a moment after its start.
fn wait_until_up(server: &Server) {
    let mut client = server.client();
    wait_until("the cluster is up", || {
        reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
    });
}

impl TestStore {
    /// Kills the server with SIGKILL and starts it again.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server.start_again();
        if self.is_cluster {
            wait_until_up(&self.server);
        }
    }

    fn hash_tag(&self, of: u16) -> String {
        if self.is_cluster {
            format!(":{{{of}}}")
        } else {
            String::new()
        }
    }

    /// The partition of an entity or user: CRC-16/XMODEM, bit by bit.
    pub fn partition(of: &str, partitions: u16) -> u16 {
        let crc = of.bytes().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 {
                    crc << 1
                } else {
                    crc << 1 ^ 0x1021
                }
            })
        });
        crc % partitions
    }

    /// A key of an entity or user, with 16 partitions.
    pub fn key(&self, before: &str, part: &str, entity: &str) -> String {
        format!(
            "{before}{part}{}",
            self.hash_tag(TestStore::partition(entity, 16))
        )
    }

    /// The log of a partition.
    pub fn log(&self, partition: u16) -> String {
        self.numbered("x:cnt-update", partition)
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
        match self.is_cluster {
            true => format!("x:cnt-update:{{{partition}}}:pos"),
            false => "x:cnt-update:pos".to_owned(),
        }
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
