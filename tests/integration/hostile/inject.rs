//! Sends forged values to a server, verifies those that it loads, and removes them.

use super::forged::{Expect, Forged, Kind, LoadPath};
use super::{verify, verify_tables};
use countint_tests::payload::Payload;
use countint_tests::{Client, Value, args, reply};

/// The outcomes of forged values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    pub sent: u64,
    pub refused: u64,
    /// Valid values of the module's types.
    pub loaded: u64,
    /// Values of the server's own types, and empty imports.
    pub other: u64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, more: Outcomes) {
        self.sent += more.sent;
        self.refused += more.refused;
        self.loaded += more.loaded;
        self.other += more.other;
    }
}

/// Loads forged values into a server. The database is empty before and after.
pub struct Injector {
    pub client: Client,
    /// The footer that the server itself writes.
    model: Payload,
    batches: usize,
}

impl Injector {
    /// Uses this connection.
    pub fn new(mut client: Client) -> Injector {
        client.ok("SET model 1");
        let model = Payload::parse(&reply::bytes(client.ok("DUMP model")));
        client.ok("DEL model");
        Injector {
            client,
            model,
            batches: 0,
        }
    }

    /// Loads all values in batches.
    ///
    /// # Panics
    /// When an outcome is not the expected one, or a loaded value is inconsistent; the message names the forged value.
    pub fn inject(
        &mut self,
        kind: Kind,
        way: LoadPath,
        values: impl IntoIterator<Item = Forged>,
    ) -> Outcomes {
        const VALUES: usize = 128;
        const BYTES: usize = 1 << 20;
        let mut outcomes = Outcomes::default();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for forged in values {
            bytes += forged.bytes.len();
            batch.push(forged);
            if batch.len() == VALUES || bytes > BYTES {
                outcomes += self.inject_batch(kind, way, &batch);
                batch.clear();
                bytes = 0;
            }
        }
        outcomes += self.inject_batch(kind, way, &batch);
        outcomes
    }

    fn inject_batch(&mut self, kind: Kind, way: LoadPath, batch: &[Forged]) -> Outcomes {
        let commands: Vec<_> = (batch.iter().enumerate())
            .map(|(i, forged)| {
                let key = format!("k{i}");
                match way {
                    LoadPath::Import => args![kind.import(), key, forged.bytes].to_vec(),
                    LoadPath::Restore => {
                        args!["RESTORE", key, 0, self.model.reseal(&forged.bytes)].to_vec()
                    }
                }
            })
            .collect();
        let replies = self.client.pipeline(&commands);
        let types: Vec<_> = (0..batch.len())
            .map(|i| args!["TYPE", format!("k{i}")].to_vec())
            .collect();
        let types = self.client.pipeline(&types);
        let mut outcomes = Outcomes {
            sent: batch.len() as u64,
            ..Outcomes::default()
        };
        let mut loaded = Vec::new();
        for (i, (forged, (reply, kind_now))) in
            batch.iter().zip(replies.into_iter().zip(types)).enumerate()
        {
            let refused = matches!(reply, Value::ServerError(_));
            check_reply(forged, way, &reply);
            let kind_now = reply::text(kind_now);
            if refused {
                assert_eq!(
                    kind_now, "none",
                    "{}: refused, but the key exists",
                    forged.what
                );
                outcomes.refused += 1;
            } else if kind_now == kind.name() {
                loaded.push((format!("k{i}").into_bytes(), forged));
            } else {
                // A damaged first byte may turn it into one of the server's own types.
                outcomes.other += 1;
            }
        }
        outcomes.loaded = loaded.len() as u64;
        self.batches += 1;
        let thorough = self.batches.is_multiple_of(16);
        match kind {
            Kind::Counters => verify::counters(&mut self.client, &loaded, thorough),
            Kind::Set => verify::sets(&mut self.client, &loaded, way),
            Kind::Table => verify_tables::tables(&mut self.client, &loaded),
        }
        self.clear(batch.len());
        outcomes
    }
}

impl Injector {
    /// Removes the keys of a batch.
    fn clear(&mut self, len: usize) {
        let keys = (0..len).map(|i| format!("k{i}"));
        let delete: Vec<String> = ["DEL".to_owned()].into_iter().chain(keys).collect();
        self.client.call(&delete);
        assert_eq!(
            reply::int(self.client.ok("DBSIZE")),
            0,
            "the database is empty"
        );
    }
}

fn check_reply(forged: &Forged, way: LoadPath, reply: &Value) {
    let what = &forged.what;
    let Value::ServerError(error) = reply else {
        assert_ne!(forged.expect, Expect::Refusal, "{what}: was loaded");
        return;
    };
    let text = reply::error_text(error);
    assert_ne!(forged.expect, Expect::Load, "{what}: {text}");
    match way {
        // RESTORE's other error is a wrong checksum, which would not test the module.
        LoadPath::Restore => assert_eq!(text, "ERR Bad data format", "{what}"),
        LoadPath::Import => assert_eq!(text, "ERR invalid payload", "{what}"),
    }
}
