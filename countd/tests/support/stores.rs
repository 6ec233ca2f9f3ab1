//! Servers of the kinds that countd works with.

use countint_tests::{Server, reply, wait_until};

/// A server, and what its keys look like.
pub struct TestStore {
    /// The server.
    pub server: Server,
    /// Whether it has the module.
    pub has_module: bool,
    is_cluster: bool,
}

/// With the module.
pub fn module() -> TestStore {
    TestStore {
        server: Server::builder().append_only(true).start(),
        has_module: true,
        is_cluster: false,
    }
}

/// Without it.
pub fn plain() -> TestStore {
    TestStore {
        server: Server::builder().no_module().append_only(true).start(),
        has_module: false,
        is_cluster: false,
    }
}

/// With the module, in cluster mode: every key that a step touches is in one slot, or the server refuses it.
pub fn cluster() -> TestStore {
    TestStore {
        server: one_node_cluster(),
        has_module: true,
        is_cluster: true,
    }
}

/// Makes a test of each function for each kind of server.
macro_rules! for_each_store {
    ([$($store:ident)*] $($case:ident)*) => { $crate::support::stores::for_each_store!(@ [$($store)*] [$($case)*]); };
    (@ [$($store:ident)*] $cases:tt) => { $( mod $store { $crate::support::stores::for_each_store!(# $store $cases); } )* };
    (# $store:ident [$($case:ident)*]) => { $( #[test] fn $case() { super::$case($crate::support::stores::$store()); } )* };
}
pub(crate) use for_each_store;

/// A server in cluster mode, with all slots: every key that a step touches is in one slot, or the server refuses it, and
/// users' counters go through the outbox.
pub fn one_node_cluster() -> Server {
    let server = Server::builder()
        .config("cluster-enabled yes")
        .append_only(true)
        .start();
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until_up(&server);
    server
}

/// Waits until a server in cluster mode works: it takes a while after its start.
fn wait_until_up(server: &Server) {
    let mut client = server.client();
    wait_until("the cluster is up", || {
        reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
    });
}

impl TestStore {
    /// `kill -9` of the server, and a new start.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server.start_again();
        if self.is_cluster {
            wait_until_up(&self.server);
        }
    }

    fn tag(&self, of: u16) -> String {
        if self.is_cluster {
            format!(":{{{of}}}")
        } else {
            String::new()
        }
    }

    /// The partition of something, of 16: CRC-16/XMODEM, bit by bit.
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

    /// A key of an entity's facts, with 16 partitions.
    pub fn key(&self, before: &str, part: &str, entity: &str) -> String {
        format!(
            "{before}{part}{}",
            self.tag(TestStore::partition(entity, 16))
        )
    }

    /// A log.
    pub fn log(&self, partition: u16) -> String {
        self.numbered("x:cnt-update", partition)
    }

    /// The days of a partition.
    pub fn days(&self, partition: u16) -> String {
        self.numbered("countd:days", partition)
    }

    /// A schema.
    pub fn schema(&self, id: &str) -> String {
        match self.is_cluster {
            true => format!("schema:{{{id}}}"),
            false => format!("schema:{id}"),
        }
    }

    /// The hash with the position of a partition.
    pub fn positions(&self, partition: u16) -> String {
        match self.is_cluster {
            true => format!("x:cnt-update:{{{partition}}}:pos"),
            false => "x:cnt-update:pos".to_owned(),
        }
    }

    /// The dead letters of a partition.
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

/// Moves every day fifty years back, as if all that was done had been done then.
const AGE: &str = "
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local day, name = entry:match('^(%d+):(.*)$')
  local before, old = 's:' .. name .. ':', string.format('%d', day - 500000)
  redis.call('RENAME', before .. day .. ARGV[1], before .. old .. ARGV[1])
  for key, text in pairs({ [KEYS[1]] = ':' .. name, [before .. 'days' .. ARGV[1]] = '' }) do
    redis.call('ZREM', key, day .. text)
    redis.call('ZADD', key, old, old .. text)
  end
end";

/// Lets fifty years pass, for all facts of days.
pub fn move_days_back(store: &TestStore, partitions: u16) {
    let mut client = store.server.client();
    for partition in 0..partitions {
        let tag = store.tag(partition);
        client.call(&["EVAL", AGE, "1", &store.days(partition), &tag]);
    }
}

/// Waits until no day is left that is over.
pub fn wait_until_compacted(store: &TestStore, partitions: u16) {
    let mut client = store.server.client();
    wait_until("old days are folded", || {
        (0..partitions).all(|partition| {
            let key = store.days(partition);
            reply::int(client.ok(&format!("ZCOUNT {key} -inf 20200101"))) == 0
        })
    });
}
