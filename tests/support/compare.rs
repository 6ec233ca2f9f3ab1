//! Comparing long texts so that a failure shows only what differs.

/// What differs between two texts, line by line; `None` when they are the same.
pub fn difference(expected: &str, got: &str) -> Option<String> {
    const SHOWN: usize = 20;
    if expected == got {
        return None;
    }
    let (left, right): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let mut out = Vec::new();
    for i in 0..left.len().max(right.len()) {
        let (l, r) = (left.get(i), right.get(i));
        if l == r {
            continue;
        }
        if out.len() >= 2 * SHOWN {
            out.push("...".to_owned());
            break;
        }
        out.extend(l.map(|line| format!("- {line}")));
        out.extend(r.map(|line| format!("+ {line}")));
    }
    Some(out.join("\n"))
}

/// Fails with the lines that differ.
///
/// # Panics
/// When the texts differ.
#[track_caller]
pub fn assert_same(expected: &str, got: &str, what: &str) {
    if let Some(difference) = difference(expected, got) {
        panic!("{what} (- expected, + got):\n{difference}");
    }
}
