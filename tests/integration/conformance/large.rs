//! Commands with more arguments than Lua passes to one command, and others too large for a text file.

use countint_tests::args;

/// The commands, in order: each depends on earlier ones.
pub fn commands() -> Vec<Vec<Vec<u8>>> {
    let mut all = counters();
    all.extend(pages());
    all.extend(events());
    all
}

fn command(head: &[Vec<u8>], tail: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let tail = tail.map(|n| n.to_string().into_bytes());
    head.iter().cloned().chain(tail).collect()
}

fn counters() -> Vec<Vec<Vec<u8>>> {
    let set_all = command(
        &args!["CINT.SET", "k", "LEN", 65_535],
        (0..65_535).flat_map(|i| [i, i * 16_777_259 % (1 << 40)]),
    );
    let batch = command(
        &args!["CINT.BATCHINCR", "k"],
        (0..9_000).flat_map(|i| [i * 7, i]),
    );
    // Changes every field twice; only the last field has a net change.
    let deltas = (0..9_000).flat_map(|i| [i, 1].map(|n| n.to_string()));
    let deltas = deltas.chain((0..8_999).flat_map(|i| [i.to_string(), "-1".to_owned()]));
    let mut twice = args!["CINT.BATCHINCR", "k"].to_vec();
    twice.extend(deltas.map(String::into_bytes));
    let grown = command(
        &args!["CINT.BATCHINCR", "new", "LEN", 5_000],
        (0..5_000).flat_map(|i| [4_999 - i, i]),
    );
    let apply = command(
        &args!["CINT.APPLY", "k", 65_534, 0, 1_099_511_627_774_u64],
        (0..20_000).flat_map(|i| [i % 3_000, i]),
    );
    // The fence of `k` is ahead of that batch. On a new object the batch is applied.
    let apply_new = command(
        &args!["CINT.APPLY", "fed", 3_000, 0, 9, "LEN", 3_001],
        (0..20_000).flat_map(|i| [i % 3_000, i]),
    );
    vec![
        set_all,
        args!["CINT.EXPORT", "k"].to_vec(),
        args!["CINT.DUMP", "k"].to_vec(),
        command(&args!["CINT.MGET", "k"], (0..9_000).map(|i| 65_534 - i)),
        command(&args!["CINT.MGET", "nosuch"], 0..9_000),
        batch,
        twice,
        grown,
        args!["CINT.EXPORT", "new"].to_vec(),
        apply,
        apply_new,
        args!["CINT.EXPORT", "fed"].to_vec(),
        args!["CINT.RESIZE", "k", 65_534].to_vec(),
        args!["CINT.SET", "k", 65_534, 0].to_vec(),
        args!["CINT.RESIZE", "k", 65_534].to_vec(),
        args!["CINT.EXPORT", "k"].to_vec(),
        args!["CINT.IMPORT", "copy", vec![7; 5 * 65_535]].to_vec(),
        args!["CINT.EXPORT", "copy"].to_vec(),
        args!["CINT.IMPORT", "over", vec![7; 5 * 65_536]].to_vec(),
    ]
}

fn pages() -> Vec<Vec<Vec<u8>>> {
    let keys = |count: usize| (0..count).map(|i| ["k", "new", "nosuch"][i % 3]);
    let page = |head: &[Vec<u8>], count| {
        let keys = keys(count).map(|key| key.as_bytes().to_vec());
        head.iter().cloned().chain(keys).collect::<Vec<_>>()
    };
    vec![
        page(&args!["CINT.MDUMP"], 9),
        page(&args!["CINT.MREAD", 3], 9_000),
        // 1,639 objects of 65,535 fields exceed 512 MB, regardless of the values.
        page(&args!["CINT.MREAD", 65_535], 1_639),
        args!["CINT.MDUMP", "k", "new"].to_vec(),
    ]
}

fn events() -> Vec<Vec<Vec<u8>>> {
    let mark = |key: &str, words| {
        command(
            &args!["RBM.MARK", key, 1, "EVENT", format!("log of {key}"), "SEQ"],
            0..words,
        )
    };
    vec![
        mark("many", 2 * 3_498),
        args!["XRANGE", "log of many", "-", "+"].to_vec(),
        mark("too many", 8_000),
        // Exhausts the sequence numbers of ID 0. The server's error text is not compared.
        args!["XADD", "last", "0-18446744073709551615", "f", "v"].to_vec(),
        args![
            "RBM.MARK", "s", 1, "COUNT", "c", 0, "EVENT", "last", "SEQ", "f", "v"
        ]
        .to_vec(),
        args!["EXISTS", "s", "c"].to_vec(),
    ]
}
