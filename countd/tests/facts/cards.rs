//! The number of facts of an entity, as scripts count it.

use super::setup::*;
use crate::support::stores::{TestStore, move_days_back, wait_until_compacted};
use crate::support::wait_until_drained;
use countd::domain::config::FactKind;
use countd::domain::ids::{Entity, Id, Name};
use countd::domain::keys::{Keys, PartitionHash};
use countd::facts::{Card, CardSource, FactStores, cards, decode_cards};
use countd::redis::script::CounterBackend;
use countint_tests::reply;
use redis::{Arg, Value};

const KINDS: [FactKind; 4] = [
    FactKind::Rbm,
    FactKind::Bitmap,
    FactKind::Daily,
    FactKind::Sharded,
];

/// Counts the facts of an entity in one script, for all stores.
fn count_facts(store: &TestStore, eid: &str) -> Vec<Card> {
    let (name, backend) = (
        |text: &str| Name::new(text).expect("a name"),
        backend(store),
    );
    let keys = Keys::new(PARTITIONS, store.is_cluster(), PartitionHash::Murmur2);
    let stores = FactStores::new(keys, backend, 3);
    let entity = Entity {
        etype: name("note"),
        eid: Id::new(eid).expect("an ID"),
    };
    let sources: Vec<CardSource> = STORES
        .into_iter()
        .map(|metric| {
            let mut kinds = KINDS.into_iter();
            let kind = kinds.find(|kind| kind.name() == metric).expect("a kind");
            stores.get(kind).card_source(&name(metric), &entity)
        })
        .collect();
    let call = cards(backend, &sources);
    let source = &call.script.expect("a script").source;
    // EVAL takes the source in place of the hash.
    let mut args: Vec<Vec<u8>> = vec![b"EVAL".to_vec(), source.clone().into_bytes()];
    args.extend(call.cmd.args_iter().skip(2).map(|arg| match arg {
        Arg::Simple(bytes) => bytes.to_vec(),
        _ => panic!("a cursor"),
    }));
    let reply = store.server.client().call(&args);
    assert!(
        matches!(reply, Value::Array(_)),
        "{}",
        reply::format(&reply)
    );
    decode_cards(reply).expect("numbers")
}

fn backend(store: &TestStore) -> CounterBackend {
    match store.has_module {
        true => CounterBackend::Module,
        false => CounterBackend::Strings,
    }
}

pub fn scripts_count_the_facts_of_every_store(store: TestStore) {
    let countd = start(&store.server);
    let api = countd.api();
    assert_eq!(count_facts(&store, "1"), [Card::Known(0); 4]);
    // Two chunks of bits, and all shards.
    let users = [0, 1, 2, 7, 32_767, 32_768, 99_999];
    for metric in STORES {
        for uid in users {
            api.act(metric, on(1, uid));
        }
        api.act(metric, on(2, 7));
        api.act(&format!("un{metric}"), on(1, 7));
    }
    for uid in ["alice", "bob"] {
        api.act("daily", on(1, uid));
        api.act("sharded", on(1, uid));
    }
    let expected = [6, 6, 8, 8].map(Card::Known);
    assert_eq!(count_facts(&store, "1"), expected);
    assert_eq!(count_facts(&store, "2"), [Card::Known(1); 4]);
    // Old days, compacted days and today.
    move_days_back(&store, PARTITIONS);
    assert_eq!(count_facts(&store, "1"), expected);
    wait_until_compacted(&store, PARTITIONS);
    assert_eq!(count_facts(&store, "1"), expected);
    for uid in ["new", "8"] {
        api.act("daily", on(1, uid));
    }
    assert_eq!(count_facts(&store, "1")[2], Card::Known(10));
    wait_until_drained(&store.server, PARTITIONS);
}

pub fn facts_that_cannot_be_counted_are_reported(store: TestStore) {
    let countd = start(&store.server);
    let api = countd.api();
    for metric in STORES {
        api.act(metric, on(1, 5));
    }
    let mut client = store.server.client();
    for (key, part) in [("rbm:rbm:note:1", ""), ("s:sharded:note:1:", "1")] {
        let key = store.key(key, part, "note:1");
        client.ok(&format!("DEL {key}"));
        client.ok(&format!("RPUSH {key} x"));
    }
    let chunks = store.key("bm:bitmap:note:1:", "chunks", "note:1");
    let many: Vec<String> = (0..1_025).map(|chunk| format!("{chunk} {chunk}")).collect();
    client.ok(&format!("ZADD {chunks} {}", many.join(" ")));
    let counted = count_facts(&store, "1");
    let expected = [
        Card::WrongType,
        Card::Large,
        Card::Known(1),
        Card::WrongType,
    ];
    assert_eq!(counted, expected);
    client.ok(&format!("ZREM {chunks} 1024"));
    assert_eq!(count_facts(&store, "1")[1], Card::Known(1));
}
