//! A server with the data of every scenario, and large objects.

use countint_tests::play::{Player, Route, play_all_into_databases};
use countint_tests::{Builder, Client, Scenario, Server, Snapshot, args, env, reply};
use roaring::RoaringTreemap;

/// Each scenario's keys in its own database, and large objects in the last database.
pub struct Dataset {
    /// The server.
    pub server: Server,
    scenarios: Vec<Scenario>,
}

/// Settings with enough databases.
pub fn builder() -> Builder {
    Server::builder().config("databases 64")
}

impl Dataset {
    /// Starts a server and runs all scenarios on it.
    pub fn new(settings: Builder) -> Dataset {
        let mut dataset = Dataset {
            server: settings.start(),
            scenarios: Scenario::all(),
        };
        dataset.play();
        dataset
    }

    /// Starts a server without data.
    pub fn empty(settings: Builder) -> Dataset {
        Dataset {
            server: settings.start(),
            scenarios: Scenario::all(),
        }
    }

    /// Runs all scenarios and creates the large objects.
    pub fn play(&mut self) {
        let mut player = Player::new(&self.server, Route::Direct, false);
        play_all_into_databases(&mut player, &self.scenarios);
        player
            .client
            .ok(&format!("SELECT {}", self.scenarios.len()));
        fill(&mut player.client);
    }

    /// The server's data.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&mut self.server.client())
    }

    /// The scenario whose keys a database holds.
    pub fn scenario_of(&self, database: u64) -> String {
        match self.scenarios.get(database as usize) {
            Some(scenario) => scenario.name.clone(),
            None => "large objects".to_owned(),
        }
    }

    /// Asserts that two snapshots have equal data.
    #[track_caller]
    pub fn assert_holds(&self, before: &Snapshot, after: &Snapshot, what: &str) {
        before.assert_same_at(after, what, |database| self.scenario_of(database));
    }
}

/// Adds members, 1,000 with each command.
pub fn add(client: &mut Client, key: &str, members: impl Iterator<Item = u64>) {
    let members: Vec<u64> = members.collect();
    let commands: Vec<Vec<Vec<u8>>> = members
        .chunks(1000)
        .map(|chunk| {
            let mut command = args!["RBM.ADD", key].to_vec();
            command.extend(chunk.iter().map(|member| member.to_string().into_bytes()));
            command
        })
        .collect();
    client.pipeline(&commands);
}

/// Pseudo-random numbers: the same in every run (splitmix64).
pub fn random(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |i: u64| {
        let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Whether this is a slow run, such as under valgrind, with smaller objects.
pub fn is_slow() -> bool {
    env::slow() > 1.0
}

/// Adds members with one `RBM.IMPORT`.
fn import(client: &mut Client, key: &str, members: impl Iterator<Item = u64>) {
    let mut bytes = Vec::new();
    let set: RoaringTreemap = members.collect();
    set.serialize_into(&mut bytes)
        .expect("writing to a vector cannot fail");
    let new = reply::int(client.call(&args!["RBM.IMPORT", key, bytes]));
    assert_eq!(new, set.len() as i64, "RBM.IMPORT {key}");
}

/// Tables of one and of many rows, of sequential and of snowflake ids, of narrow and of wide counters, with long rows and
/// with fences.
fn fill_tables(client: &mut Client, size: impl Fn(u64) -> u64) {
    let mut fill = |key: &str, ids: &mut dyn Iterator<Item = u64>, bits: u32| {
        let mut values = random(3);
        let mut value = || values.next().unwrap_or_default() >> (64 - bits);
        let commands: Vec<Vec<Vec<u8>>> = ids
            .map(|id| {
                args![
                    "CTAB.SET",
                    key,
                    id,
                    0,
                    value(),
                    1,
                    value() >> 4,
                    4,
                    value() >> 9
                ]
                .to_vec()
            })
            .collect();
        client.pipeline(&commands);
    };
    fill("table", &mut (0..size(10_000)), 20);
    // More than a megabyte, so that a rewrite of the AOF needs several commands.
    fill("wide table", &mut random(4).take(size(38_000) as usize), 40);
    let snowflake = |i| ((1_700_000_000_000 + i * 37) << 22) | (i % 4096);
    fill(
        "table of snowflakes",
        &mut (0..size(5_000)).map(snowflake),
        15,
    );
    fill(
        "table of edges",
        &mut [0, 1, u64::MAX - 1, u64::MAX].into_iter(),
        40,
    );
    for (id, idx) in [(5, 65_534), (6, 0), (7, 1000)] {
        client.call(&args![
            "CTAB.INCRBY",
            "long table",
            id,
            idx,
            id,
            "LEN",
            65_535
        ]);
    }
    // Its rows were created with five counters.
    client.ok("CTAB.INCRBY \"table of edges\" 1 99 7 LEN 100");
    for source in [0, 3, 65_534] {
        client.call(&args![
            "CTAB.MAPPLY",
            "table of edges",
            source,
            0,
            1u64 << 33,
            1,
            0,
            1
        ]);
    }
    client.ok("CTAB.INIT \"empty table\" 12");
    client.ok("EXPIREAT table 4102444800");
}

/// Sets in every kind of container and over many high halves, and counters of every length.
fn fill(client: &mut Client) {
    // Each digest hashes every member, which takes minutes under valgrind.
    let size = |members: u64| if is_slow() { members / 10 } else { members };
    import(client, "dense", 0..size(150_000));
    import(client, "every other", (0..size(150_000)).map(|i| i * 2));
    // Sparse enough to exceed a megabyte, so that a rewrite of the AOF needs several commands.
    import(client, "sparse", random(1).take(size(60_000) as usize));
    let runs = (0..size(20_000)).map(|i| i / 1000 * 100_000 + i % 1000);
    add(client, "runs", runs);
    // Snowflakes: milliseconds in the high bits.
    let snowflakes = (0..size(10_000)).map(|i| ((1_700_000_000_000 + i * 37) << 22) | (i % 4096));
    add(client, "snowflakes", snowflakes);
    add(
        client,
        "edges",
        [0, u64::MAX, u64::MAX - 1, 1 << 32, (1 << 32) - 1].into_iter(),
    );
    let values: Vec<u8> = random(2)
        .take(65_535)
        .flat_map(|n| n.to_be_bytes()[3..].to_vec())
        .collect();
    for len in [1, 2, 5, 6, 100, 1000, 65_535] {
        client.call(&args![
            "CINT.IMPORT",
            format!("len {len}"),
            values[..5 * len]
        ]);
    }
    fill_tables(client, size);
    client.ok("EXPIREAT \"len 5\" 4102444800");
    client.ok("EXPIREAT dense 4102444800");
}
