//! Configurations whose log is the topic.

use super::names::TOPIC;

/// The sections `[log]`, `[kafka]` and `[consumer]` of a configuration. `more` are further lines of `[kafka]`, and
/// sections after them.
pub fn config(brokers: &str, partitions: u16, more: &str) -> String {
    format!(
        "[log]\nkind = \"kafka\"\npartitions = {partitions}\nretain = 100\n{}{more}\n\
         [consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n",
        section(brokers)
    )
}

/// A configuration whose log is in streams, with the topic of these brokers as its log.
pub fn with_topic(config: &str, brokers: &str) -> String {
    const LOG: &str = "[log]\n";
    assert_eq!(config.matches(LOG).count(), 1, "{config}");
    let config = config.replace(LOG, &format!("{LOG}kind = \"kafka\"\n"));
    format!("{config}\n{}", section(brokers))
}

/// The section `[kafka]`.
fn section(brokers: &str) -> String {
    let brokers: Vec<String> = brokers
        .split(',')
        .map(|broker| format!("\"{broker}\""))
        .collect();
    format!(
        "[kafka]\nbrokers = [{}]\ntopic = \"{TOPIC}\"\n",
        brokers.join(", ")
    )
}
