//! Rate limiting: identifies the client of a request and charges its items.

use super::app::App;
use super::peer::Peer;
use crate::domain::config::LimitsConfig;
use crate::domain::error::Problem;
use crate::ingest::limits::{
    ClientKey, DeviceId, DeviceLimiter, RateLimits, SharedLimiter, Standing, collect,
};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

/// The client of a request.
#[derive(Clone, Default)]
pub struct Client {
    /// `None` if the address is exempt.
    address: Option<ClientKey>,
    /// `None` if the request does not name a device.
    device: Option<Device>,
    is_exempt: bool,
}

/// The device of a request, as its limiter names it.
#[derive(Clone)]
enum Device {
    Local(ClientKey),
    Shared(DeviceId),
}

impl Client {
    /// Whether the address is exempt from limits. Envelopes of an exempt outbox relay are not charged to their users.
    pub fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// Acquires the first item of a request.
    async fn acquire_first(&self, limits: &RateLimits) -> Result<(), Problem> {
        if let Some(key) = self.address {
            limits.addresses.acquire(key, 1)?;
        }
        match (&self.device, &limits.devices) {
            (Some(Device::Local(key)), DeviceLimiter::Local(devices)) => devices.acquire(*key, 1),
            (Some(Device::Shared(id)), DeviceLimiter::Shared(devices)) => {
                // Boxed to keep the middleware's future small: it is copied for each request.
                Box::pin(devices.acquire(id, 1)).await
            }
            _ => Ok(()),
        }
    }

    /// Acquires the items of a request except the first, which the middleware has acquired.
    ///
    /// # Errors
    /// [`Problem::Limited`], or [`Problem::TooMany`] if `items` exceeds the burst.
    pub async fn acquire_rest(&self, limits: &RateLimits, items: usize) -> Result<(), Problem> {
        if let Some(key) = self.address {
            limits.addresses.acquire_rest(key, items)?;
        }
        match (&self.device, &limits.devices) {
            (Some(Device::Local(key)), DeviceLimiter::Local(devices)) => {
                devices.acquire_rest(*key, items)
            }
            (Some(Device::Shared(id)), DeviceLimiter::Shared(devices)) => {
                devices.acquire_rest(id, items).await
            }
            _ => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Client, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Runs a request unless its client is over its limits, and adds the headers `RateLimit-Policy` and `RateLimit`.
pub async fn limit_rate<F: Future<Output = Response>>(
    app: &App,
    mut request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F,
) -> Response {
    let settings = &app.config.limits;
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>();
    let address =
        peer.map(|Peer(peer)| client_address(peer.ip(), headers, &settings.trusted_proxies));
    let is_exempt = address.is_some_and(|address| is_exempt(address, settings));
    let limited = address.filter(|_| !is_exempt);
    let device = headers.get(&settings.device_header);
    let client = Client {
        is_exempt,
        address: limited.map(|address| app.limits.addresses.key(network(address))),
        device: device.and_then(|device| match &app.limits.devices {
            DeviceLimiter::Local(devices) => Some(Device::Local(devices.key(device.as_bytes()))),
            DeviceLimiter::Shared(_) => {
                SharedLimiter::device_id(device.as_bytes()).map(Device::Shared)
            }
        }),
    };
    let (mut response, standings) = collect(async {
        let admitted = client.acquire_first(&app.limits).await;
        if let Err(problem) = admitted {
            return problem.into_response();
        }
        request.extensions_mut().insert(client);
        run(request).await
    })
    .await;
    add_headers(response.headers_mut(), &standings);
    response
}

/// Adds the headers of draft-ietf-httpapi-ratelimit-headers: all limits that the request has met, and the one with the least remaining.
fn add_headers(headers: &mut HeaderMap, standings: &[Standing]) {
    let Some(tightest) = standings.iter().min_by_key(|standing| standing.remaining) else {
        return;
    };
    let policies = standings.iter().map(|standing| {
        let Standing { scope, burst, .. } = standing;
        format!("\"{scope}\";q={burst};w={}", standing.window())
    });
    let policies = policies.collect::<Vec<_>>().join(", ");
    let Standing {
        scope, remaining, ..
    } = tightest;
    let standing = format!("\"{scope}\";r={remaining};t={}", tightest.reset());
    for (name, text) in [("ratelimit-policy", policies), ("ratelimit", standing)] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
}

/// Whether an address has no limit. A trusted proxy is never exempt: requests for which it names no client may come from anyone, and
/// share the limit of its address.
fn is_exempt(address: IpAddr, settings: &LimitsConfig) -> bool {
    contains(&settings.exempt, address) && !contains(&settings.trusted_proxies, address)
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// The address of the client: the last one in `X-Forwarded-For` that is not a trusted proxy. Clients can forge the ones before it.
/// If the header is missing or malformed, it is the address of the proxy.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut address = peer.to_canonical();
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    for hop in hops.map(str::trim) {
        if !contains(trusted, address) {
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

/// The /64 network of an IPv6 address, because a client usually has all of its addresses; any IPv4 address itself.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(peer: &str, forwarded: &[&'static str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().expect("a value"));
        }
        let trusted: Vec<IpNet> = trusted
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        client_address(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let proxies = ["10.0.0.0/8"];
        assert_eq!(resolve("1.1.1.1", &["2.2.2.2"], &proxies), "1.1.1.1");
        assert_eq!(resolve("10.0.0.1", &["2.2.2.2"], &proxies), "2.2.2.2");
        assert_eq!(
            resolve("10.0.0.1", &["6.6.6.6, 2.2.2.2"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(
            resolve("10.0.0.1", &["6.6.6.6, 2.2.2.2 ,10.0.0.2"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(
            resolve("10.0.0.1", &["6.6.6.6", "2.2.2.2:99"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(resolve("10.0.0.1", &["nonsense"], &proxies), "10.0.0.1");
        assert_eq!(resolve("10.0.0.1", &[], &proxies), "10.0.0.1");
        assert_eq!(
            resolve("10.0.0.1", &["2.2.2.2, nonsense, 10.0.0.2"], &proxies),
            "10.0.0.2"
        );
        assert_eq!(
            resolve("::ffff:10.0.0.1", &["2.2.2.2"], &proxies),
            "2.2.2.2"
        );
        assert_eq!(resolve("10.0.0.1", &["2.2.2.2"], &[]), "10.0.0.1");
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("1.2.3.4"), network("1.2.3.5"));
    }
}
