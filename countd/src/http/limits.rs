//! RateLimits over HTTP: whose request it is, and what it costs.

use super::App;
use super::serve::Peer;
use crate::domain::config;
use crate::domain::error::Problem;
use crate::ingest::limits::{ClientKey, LocalLimiter, RateLimits};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

/// ClientKey sends a request, as far as he is limited.
#[derive(Clone, Copy, Default)]
pub struct Client {
    address: Option<ClientKey>,
    device: Option<ClientKey>,
    is_exempt: bool,
}

impl Client {
    /// Whether the configuration exempts the address from limits. An outbox relay there is believed to send what users were
    /// allowed to do.
    pub fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// Takes the items of a request beyond the first, which is paid for already.
    ///
    /// # Errors
    /// [`Problem::Limited`]; [`Problem::TooMany`] if it will never be possible.
    pub fn pay(&self, limits: &RateLimits, items: usize) -> Result<(), Problem> {
        self.each(limits, |of, who| of.take_rest(who, items))
    }

    fn each(
        &self,
        limits: &RateLimits,
        take: impl Fn(&LocalLimiter, ClientKey) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let address = self.address.map(|who| take(&limits.addresses, who));
        address.unwrap_or(Ok(()))?;
        let device = self.device.map(|who| take(&limits.devices, who));
        device.unwrap_or(Ok(()))
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Client, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}

/// Lets requests pass whose clients are within their limits.
pub async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let settings = &app.config.limits;
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>();
    let address = peer.map(|Peer(peer)| address(peer.ip(), headers, &settings.trusted_proxies));
    let is_exempt = address.is_some_and(|address| is_exempt(address, settings));
    let limited = address.filter(|_| !is_exempt);
    let client = Client {
        is_exempt,
        address: limited.map(|address| app.limits.addresses.who(network(address))),
        device: headers
            .get(&settings.device_header)
            .map(|device| app.limits.devices.who(device.as_bytes())),
    };
    if let Err(problem) = client.each(&app.limits, |of, who| of.take(who, 1)) {
        return problem.into_response();
    }
    request.extensions_mut().insert(client);
    next.run(request).await
}

/// Whether an address has no limit. A trusted proxy that does not say for whom it asks has one, whatever `exempt` says: anybody
/// behind it could send such requests. All of them together are limited as the proxy's address.
fn is_exempt(address: IpAddr, settings: &config::LimitsConfig) -> bool {
    holds(&settings.exempt, address) && !holds(&settings.trusted_proxies, address)
}

fn holds(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// The nearest address that is none of the trusted proxies. What stands before it in `X-Forwarded-For` anybody can make up. Where
/// the header is missing, or cannot be read behind a proxy, it is that proxy's address.
fn address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut address = peer.to_canonical();
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    for hop in hops.map(str::trim) {
        if !holds(trusted, address) {
            break;
        }
        let with_port = || hop.parse::<SocketAddr>().map(|hop| hop.ip());
        match hop.parse::<IpAddr>().or_else(|_| with_port()) {
            Ok(hop) => address = hop.to_canonical(),
            Err(_) => break,
        }
    }
    address
}

/// ClientKey has one IPv6 address has the 2^64 of its network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(peer: &str, forwarded: &[&'static str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().expect("a value"));
        }
        let trusted: Vec<IpNet> = trusted
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        address(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies = ["10.0.0.0/8"];
        assert_eq!(found("1.1.1.1", &["2.2.2.2"], &proxies), "1.1.1.1");
        assert_eq!(found("10.0.0.1", &["2.2.2.2"], &proxies), "2.2.2.2");
        assert_eq!(
            found("10.0.0.1", &["6.6.6.6, 2.2.2.2"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(
            found("10.0.0.1", &["6.6.6.6, 2.2.2.2 ,10.0.0.2"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(
            found("10.0.0.1", &["6.6.6.6", "2.2.2.2:99"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(found("10.0.0.1", &["nonsense"], &proxies), "10.0.0.1");
        assert_eq!(found("10.0.0.1", &[], &proxies), "10.0.0.1");
        assert_eq!(
            found("10.0.0.1", &["2.2.2.2, nonsense, 10.0.0.2"], &proxies),
            "10.0.0.2"
        );
        assert_eq!(found("::ffff:10.0.0.1", &["2.2.2.2"], &proxies), "2.2.2.2");
        assert_eq!(found("10.0.0.1", &["2.2.2.2"], &[]), "10.0.0.1");
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("1.2.3.4"), network("1.2.3.5"));
    }
}
