//! Reads metrics in the text format of Prometheus: those of this process, and of others.

/// The sum of the samples of a metric, over all labels.
pub fn sum(text: &str, name: &str) -> f64 {
    samples(text, name).map(|(_, value)| value).sum()
}

/// The sum of the samples of a metric whose labels contain a text, such as `status="5`.
pub fn sum_with(text: &str, name: &str, label: &str) -> f64 {
    let found = samples(text, name).filter(|(labels, _)| labels.contains(label));
    found.map(|(_, value)| value).sum()
}

/// The value of a metric without labels. `None` if it has no sample, or is not a number.
pub fn value(text: &str, name: &str) -> Option<f64> {
    let mut found = samples(text, name).map(|(_, value)| value);
    found.next().filter(|value| value.is_finite())
}

/// The buckets of a histogram, over all other labels: the upper bound, and the number of values that are above the bound before.
pub fn buckets(text: &str, name: &str) -> Vec<(String, u64)> {
    let bucket = format!("{name}_bucket");
    // In the order of the bounds, which is that of the text.
    let mut cumulative: Vec<(String, f64)> = Vec::new();
    for (labels, value) in samples(text, &bucket) {
        let bound = labels.split("le=\"").nth(1);
        let Some(bound) = bound.and_then(|rest| rest.split('"').next()) else {
            continue;
        };
        match cumulative.iter_mut().find(|(found, _)| found == bound) {
            Some((_, sum)) => *sum += value,
            None => cumulative.push((bound.to_owned(), value)),
        }
    }
    let before = std::iter::once(0.0).chain(cumulative.iter().map(|(_, value)| *value));
    let before: Vec<f64> = before.collect();
    let counts = cumulative.into_iter().zip(before);
    counts
        .map(|((bound, value), before)| (bound, (value - before).max(0.0) as u64))
        .collect()
}

/// The labels and values of the samples with exactly this name.
fn samples<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        Some((labels, value.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a counter\na 3\na_b 5\na{x=\"}\"} 4\n\
        d_bucket{source=\"r\",le=\"0\"} 5\nd_bucket{source=\"r\",le=\"+Inf\"} 7\nd_sum{source=\"r\"} 9\n\
        d_bucket{source=\"c\",le=\"0\"} 1\nd_bucket{source=\"c\",le=\"+Inf\"} 1\n";

    #[test]
    fn samples_are_added_up_over_labels() {
        assert_eq!(sum(TEXT, "a"), 7.0);
        assert_eq!(sum(TEXT, "missing"), 0.0);
        assert_eq!(sum_with(TEXT, "d_bucket", "source=\"c\""), 2.0);
        assert_eq!(
            (value(TEXT, "a"), value(TEXT, "missing")),
            (Some(3.0), None)
        );
        assert_eq!(value("n NaN\n", "n"), None);
        let expected = [("0".to_owned(), 6), ("+Inf".to_owned(), 2)];
        assert_eq!(buckets(TEXT, "d"), expected);
        assert!(buckets(TEXT, "e").is_empty());
    }
}
