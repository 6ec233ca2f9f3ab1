//! Comparisons of objects with five counters.

use super::{Comparison, Ratio, Side, first_against};
use crate::dataset::{DataSet, Form};
use crate::distribution::short;
use crate::numbers::Pick;
use crate::options::Options;

/// Bars at a million keys, and at ten thousand hot ones.
struct Bars {
    incr_hash: f64,
    incr_bitfield: Option<f64>,
    batch_bitfield: f64,
    batch_multi: f64,
}

const MANY: Bars = Bars {
    incr_hash: 1.14,
    incr_bitfield: Some(1.15),
    batch_bitfield: 2.15,
    batch_multi: 3.2,
};
const HOT: Bars = Bars {
    incr_hash: 1.25,
    incr_bitfield: None,
    batch_bitfield: 2.6,
    batch_multi: 4.3,
};

/// What a module can reach at all: raw handlers that check next to nothing.
const PLAIN: &str = "a plain module";

/// In the order in which they run.
pub fn comparisons(options: &Options) -> Vec<Comparison> {
    let (many, hot) = (options.scale.objects, options.scale.hot_objects);
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
        pick: Pick::Objects(objects),
        sides,
        ratios,
        distinction: format!(", {} keys", short(objects)),
    }
}

/// What the method itself is worth: a ratio of two sides that are alike should be 1.
fn control(objects: u64) -> Comparison {
    let hget = |label, copy| {
        let data = DataSet::Objects(Form::Hash, objects);
        Side::new(label, data, "HGET cnt:v1:note:<id> <field>").in_copy(copy)
    };
    comparison(
        "control",
        "The control: the same command on the same data in two processes",
        objects,
        vec![hget("HGET", 0), hget("HGET again", 1)],
        first_against(&[None]),
    )
}

fn incrby(name: &'static str, objects: u64, bars: &Bars) -> Comparison {
    let side = |label, form, commands| Side::new(label, DataSet::Objects(form, objects), commands);
    comparison(
        name,
        "One counter, plus one",
        objects,
        vec![
            side(
                "CINT.INCRBY",
                Form::CountInt,
                "CINT.INCRBY cnt:v1:note:<id> <i> 1",
            ),
            side("HINCRBY", Form::Hash, "HINCRBY cnt:v1:note:<id> <field> 1"),
            side(
                "BITFIELD INCRBY",
                Form::Packed,
                "BITFIELD cnt:v1:note:<id> INCRBY u40 #<i> 1",
            ),
            side("INCR", Form::Keys, "INCR cnt:v1:note:<id>:<field>"),
            side(
                "script: unpack, add, pack",
                Form::Packed,
                "EVALSHA <script:incr> 1 cnt:v1:note:<id> <i> 1",
            ),
            side(
                "script: BITFIELD",
                Form::Packed,
                "EVALSHA <script:bitfield> 1 cnt:v1:note:<id> <i> 1",
            ),
            side(PLAIN, Form::Floor, "FLOOR.INCRBY cnt:v1:note:<id> <i> 1"),
        ],
        first_against(&[
            Some(bars.incr_hash),
            bars.incr_bitfield,
            None,
            None,
            None,
            None,
        ]),
    )
}

fn batchincr(name: &'static str, objects: u64, bars: &Bars) -> Comparison {
    let side = |label, form, commands| Side::new(label, DataSet::Objects(form, objects), commands);
    comparison(
        name,
        "Five counters of one object, plus one each",
        objects,
        vec![
            side(
                "CINT.BATCHINCR of five",
                Form::CountInt,
                "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
            side(
                "BITFIELD of five INCRBY",
                Form::Packed,
                "BITFIELD cnt:v1:note:<id> INCRBY u40 #0 1 INCRBY u40 #1 1 INCRBY u40 #2 1 INCRBY u40 #3 1 INCRBY u40 #4 1",
            ),
            side(
                "MULTI, five HINCRBY, EXEC",
                Form::Hash,
                "MULTI; HINCRBY cnt:v1:note:<id> read 1; HINCRBY cnt:v1:note:<same> like 1; \
                 HINCRBY cnt:v1:note:<same> fav 1; HINCRBY cnt:v1:note:<same> comment 1; \
                 HINCRBY cnt:v1:note:<same> repost 1; EXEC",
            ),
            side(
                "five INCR (not atomic)",
                Form::Keys,
                "INCR cnt:v1:note:<id>:read; INCR cnt:v1:note:<same>:like; INCR cnt:v1:note:<same>:fav; \
                 INCR cnt:v1:note:<same>:comment; INCR cnt:v1:note:<same>:repost",
            ),
            side(
                "script: unpack, add, pack",
                Form::Packed,
                "EVALSHA <script:batch> 1 cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
            side(
                "script: BITFIELD",
                Form::Packed,
                "EVALSHA <script:bitfield-batch> 1 cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
            side(
                PLAIN,
                Form::Floor,
                "FLOOR.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
            ),
        ],
        first_against(&[
            Some(bars.batch_bitfield),
            Some(bars.batch_multi),
            None,
            None,
            None,
            None,
        ]),
    )
}

fn dump(objects: u64) -> Comparison {
    let side = |label, form, commands| Side::new(label, DataSet::Objects(form, objects), commands);
    comparison(
        "dump",
        "Reading the five counters of one object",
        objects,
        vec![
            side("CINT.DUMP", Form::CountInt, "CINT.DUMP cnt:v1:note:<id>"),
            side(
                "HMGET of five",
                Form::Hash,
                "HMGET cnt:v1:note:<id> read like fav comment repost",
            ),
            side(
                "GET of a packed String",
                Form::Packed,
                "GET cnt:v1:note:<id>",
            ),
            side(
                "MGET of five keys",
                Form::Keys,
                "MGET cnt:v1:note:<id>:read cnt:v1:note:<same>:like cnt:v1:note:<same>:fav \
                 cnt:v1:note:<same>:comment cnt:v1:note:<same>:repost",
            ),
            side(PLAIN, Form::Floor, "FLOOR.DUMP cnt:v1:note:<id>"),
        ],
        first_against(&[Some(1.3), None, None, None]),
    )
}

fn mread(objects: u64) -> Comparison {
    let side = |label, form, commands| Side::new(label, DataSet::Objects(form, objects), commands);
    let against_mget = |of, bar| Ratio { of, to: 1, bar };
    Comparison {
        unit: "entities",
        units: 100,
        ..comparison(
            "mread",
            "Reading a page of 100 objects",
            objects,
            vec![
                side(
                    "CINT.MREAD 5",
                    Form::CountInt,
                    "CINT.MREAD 5 cnt:v1:note:<id>*100",
                ),
                side(
                    "MGET of packed Strings",
                    Form::Packed,
                    "MGET cnt:v1:note:<id>*100",
                ),
                side(
                    "CINT.MDUMP",
                    Form::CountInt,
                    "CINT.MDUMP cnt:v1:note:<id>*100",
                ),
            ],
            vec![against_mget(0, Some(1.0)), against_mget(2, None)],
        )
    }
}

fn apply(objects: u64) -> Comparison {
    let data = DataSet::Objects(Form::CountInt, objects);
    comparison(
        "apply",
        "Four counters of one object from a log, exactly once",
        objects,
        vec![
            // Its fences would be counters to the other comparisons.
            Side::new(
                "CINT.APPLY of four",
                data,
                "CINT.APPLY cnt:v1:note:<id> 4 <offset> <same-offset> 0 1 1 1 2 1 3 1",
            )
            .in_copy(1),
            Side::new(
                "CINT.BATCHINCR of four",
                data,
                "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1",
            ),
        ],
        first_against(&[None]),
    )
}
