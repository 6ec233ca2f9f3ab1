//! Addresses of servers in settings, as `host:port`.

/// The hosts and ports of addresses. `None` if one is no address.
pub(super) fn addresses(texts: &[String]) -> Option<Vec<(String, u16)>> {
    let address = |text: &String| {
        let (host, port) = text.rsplit_once(':')?;
        // The brackets of an IPv6 address.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
    };
    texts.iter().map(address).collect()
}
