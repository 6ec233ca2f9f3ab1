//! Comparisons of objects with five counters.

use crate::workload::comparison::{Comparison, Ratio, Side, first_to_others};
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::id_source::IdSource;
use crate::workload::ids::short;
use crate::workload::scale::Scale;

/// The threshold of `CINT.BATCHINCR` to BITFIELD, both of five increments: the ratio that a minimal C module with the
/// same syntax reaches. It parses 12 arguments, BITFIELD 22.
pub const BATCH_TO_BITFIELD: f64 = 1.5;

/// The regression thresholds of increments, which differ with the number of keys.
struct Thresholds {
    incr_hash: f64,
    incr_bitfield: Option<f64>,
    batch_multi: f64,
}

const MANY: Thresholds = Thresholds {
    incr_hash: 1.14,
    incr_bitfield: Some(1.15),
    batch_multi: 3.2,
};
const HOT: Thresholds = Thresholds {
    incr_hash: 1.25,
    incr_bitfield: None,
    batch_multi: 4.3,
};

/// The label of the plain module, which validates almost nothing.
const PLAIN: &str = "a plain module";

/// Increments one field of a Hash. This operation and the next five are also compared with rows of tables.
pub const HINCRBY: &str = "HINCRBY cnt:v1:note:<id> <field> 1";
/// Increments one counter.
pub const CINT_INCRBY: &str = "CINT.INCRBY cnt:v1:note:<id> <i> 1";
/// Increments five fields of a Hash atomically.
pub const MULTI_HINCRBY: &str = "MULTI; HINCRBY cnt:v1:note:<id> read 1; HINCRBY cnt:v1:note:<same> like 1; \
     HINCRBY cnt:v1:note:<same> fav 1; HINCRBY cnt:v1:note:<same> comment 1; HINCRBY cnt:v1:note:<same> repost 1; EXEC";
/// Increments five counters.
pub const CINT_BATCHINCR: &str = "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1";
/// Reads a page of packed Strings.
pub const MGET: &str = "MGET cnt:v1:note:<id>*100";
/// Reads a page of CountInts.
pub const CINT_MREAD: &str = "CINT.MREAD 5 cnt:v1:note:<id>*100";

/// The comparisons, in the order in which they run.
pub fn comparisons(scale: &Scale) -> Vec<Comparison> {
    let (many, hot) = (scale.objects, scale.hot_objects);
    vec![
        control(many),
        incrby("incrby", many, &MANY),
        batchincr("batchincr", many, &MANY),
        dump(many),
        mread(many),
        apply(many),
        incrby("hot-incrby", hot, &HOT),
        batchincr("hot-batchincr", hot, &HOT),
    ]
}

/// Returns a constructor of sides on `objects` objects.
fn sides_of(objects: u64) -> impl Fn(&str, ObjectKind, &str) -> Side {
    move |label, kind, commands| Side::new(label, DataSet::Objects(kind, objects), commands)
}

fn comparison(
    name: &'static str,
    title: &str,
    objects: u64,
    sides: Vec<Side>,
    ratios: Vec<Ratio>,
) -> Comparison {
    Comparison {
        name: name.into(),
        group: name,
        stage: format!("{objects} objects"),
        title: format!("{title}, {} keys", short(objects)),
        unit: "operations",
        units: 1,
        ids: IdSource::Objects(objects),
        sides,
        ratios,
        qualifier: format!(", {} keys", short(objects)),
    }
}

/// The control: two identical sides. The deviation of their ratio from 1 is the error of the method.
fn control(objects: u64) -> Comparison {
    let hget = |label, instance| {
        let data = DataSet::Objects(ObjectKind::Hash, objects);
        Side::new(label, data, "HGET cnt:v1:note:<id> <field>").on_instance(instance)
    };
    comparison(
        "control",
        "Control: the same command on the same data in two processes",
        objects,
        vec![hget("HGET", 0), hget("HGET again", 1)],
        first_to_others(&[None]),
    )
}

fn incrby(name: &'static str, objects: u64, thresholds: &Thresholds) -> Comparison {
    let side = sides_of(objects);
    comparison(
        name,
        "Incrementing one counter",
        objects,
        vec![
            side("CINT.INCRBY", ObjectKind::CountInt, CINT_INCRBY),
            side("HINCRBY", ObjectKind::Hash, HINCRBY),
            side(
                "BITFIELD INCRBY",
                ObjectKind::Packed,
                "BITFIELD cnt:v1:note:<id> INCRBY u40 #<i> 1",
            ),
            side("INCR", ObjectKind::Keys, "INCR cnt:v1:note:<id>:<field>"),
            side(
                "script: unpack, add, pack",
                ObjectKind::Packed,
                "EVALSHA <script:incr> 1 cnt:v1:note:<id> <i> 1",
            ),
            side(
                "script: BITFIELD",
                ObjectKind::Packed,
                "EVALSHA <script:bitfield> 1 cnt:v1:note:<id> <i> 1",
            ),
            side(
                PLAIN,
                ObjectKind::Floor,
                "FLOOR.INCRBY cnt:v1:note:<id> <i> 1",
            ),
        ],
        first_to_others(&[
            Some(thresholds.incr_hash),
            thresholds.incr_bitfield,
            None,
            None,
            None,
            None,
        ]),
    )
}

fn batchincr(name: &'static str, objects: u64, thresholds: &Thresholds) -> Comparison {
    let side = sides_of(objects);
    comparison(
        name,
        "Incrementing five counters of one object",
        objects,
        vec![
            side(
                "CINT.BATCHINCR of five",
                ObjectKind::CountInt,
                CINT_BATCHINCR,
            ),
            side(
                "BITFIELD of five INCRBY",
                ObjectKind::Packed,
                "BITFIELD cnt:v1:note:<id> INCRBY u40 #0 1 INCRBY u40 #1 1 INCRBY u40 #2 1 INCRBY u40 #3 1 INCRBY u40 #4 1",
            ),
            side("MULTI, five HINCRBY, EXEC", ObjectKind::Hash, MULTI_HINCRBY),
            side(
                "five INCR (not atomic)",
                ObjectKind::Keys,
                "INCR cnt:v1:note:<id>:read; INCR cnt:v1:note:<same>:like; INCR cnt:v1:note:<same>:fav; \
                 INCR cnt:v1:note:<same>:comment; INCR cnt:v1:note:<same>:repost",
            ),
            side(
                "script: unpack, add, pack",
                ObjectKind::Packed,
                "EVALSHA <script:batch> 1 cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
            side(
                "script: BITFIELD",
                ObjectKind::Packed,
                "EVALSHA <script:bitfield-batch> 1 cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
            side(
                PLAIN,
                ObjectKind::Floor,
                "FLOOR.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
        ],
        first_to_others(&[
            Some(BATCH_TO_BITFIELD),
            Some(thresholds.batch_multi),
            None,
            None,
            None,
            None,
        ]),
    )
}

fn dump(objects: u64) -> Comparison {
    let side = sides_of(objects);
    comparison(
        "dump",
        "Reading the five counters of one object",
        objects,
        vec![
            side(
                "CINT.DUMP",
                ObjectKind::CountInt,
                "CINT.DUMP cnt:v1:note:<id>",
            ),
            side(
                "HMGET of five",
                ObjectKind::Hash,
                "HMGET cnt:v1:note:<id> read like fav comment repost",
            ),
            side(
                "GET of a packed String",
                ObjectKind::Packed,
                "GET cnt:v1:note:<id>",
            ),
            side(
                "MGET of five keys",
                ObjectKind::Keys,
                "MGET cnt:v1:note:<id>:read cnt:v1:note:<same>:like cnt:v1:note:<same>:fav \
                 cnt:v1:note:<same>:comment cnt:v1:note:<same>:repost",
            ),
            side(PLAIN, ObjectKind::Floor, "FLOOR.DUMP cnt:v1:note:<id>"),
        ],
        first_to_others(&[Some(1.3), None, None, None]),
    )
}

fn mread(objects: u64) -> Comparison {
    let side = sides_of(objects);
    let to_mget = |of, threshold| Ratio {
        of,
        to: 1,
        threshold,
    };
    Comparison {
        unit: "entities",
        units: 100,
        ..comparison(
            "mread",
            "Reading a page of 100 objects",
            objects,
            vec![
                side("CINT.MREAD 5", ObjectKind::CountInt, CINT_MREAD),
                side("MGET of packed Strings", ObjectKind::Packed, MGET),
                side(
                    "CINT.MDUMP",
                    ObjectKind::CountInt,
                    "CINT.MDUMP cnt:v1:note:<id>*100",
                ),
            ],
            vec![to_mget(0, Some(1.0)), to_mget(2, None)],
        )
    }
}

fn apply(objects: u64) -> Comparison {
    let data = DataSet::Objects(ObjectKind::CountInt, objects);
    comparison(
        "apply",
        "Applying four counters of one object from a log, exactly once",
        objects,
        vec![
            // A separate process, because its fences would change counters of the other comparisons.
            Side::new(
                "CINT.APPLY of four",
                data,
                "CINT.APPLY cnt:v1:note:<id> 4 <offset> <same-offset> 0 1 1 1 2 1 3 1",
            )
            .on_instance(1),
            Side::new(
                "CINT.BATCHINCR of four",
                data,
                "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1",
            ),
        ],
        first_to_others(&[None]),
    )
}
