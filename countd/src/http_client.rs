//! A small HTTP client, for the few requests that countd sends itself: a connection for each request, with TLS for `https`.

use axum::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::http::uri::Scheme;
use hyper::http::{HeaderValue, Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// The maximum length of a response, in bytes.
const MAX_RESPONSE: usize = 16 << 20;

/// Why a request failed, or cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The URL is not one of a server.
    #[error("{0:?} is not a URL such as http://HOST:PORT")]
    Url(String),
    /// The certificates of the authorities cannot be used.
    #[error("{file}: {problem}", file = .0.display(), problem = .1)]
    Authorities(PathBuf, String),
    /// The name of the server cannot be verified.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// The connection failed, or the server does not speak HTTP/1.1.
    #[error("no response: {0}")]
    Exchange(#[from] hyper::Error),
    /// The response is too long, or ended early.
    #[error("no complete response: {0}")]
    Body(#[from] axum::Error),
    /// The response did not arrive in time.
    #[error("no response within {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    /// The `Host` header.
    authority: HeaderValue,
    host: String,
    port: u16,
    /// The path of the URL, without a slash at its end.
    path: String,
    /// `None` for `http`.
    tls: Option<TlsConnector>,
    timeout: Duration,
}

impl HttpClient {
    /// The server of a URL `http://HOST[:PORT][/PATH]` or `https://...`. `authorities` is a PEM file of the certificate authorities; without it
    /// those of the system apply. `timeout` limits a request with its response. Connects to nothing yet.
    ///
    /// # Errors
    /// The URL is invalid, or the file cannot be used.
    pub fn new(
        url: &str,
        authorities: Option<&Path>,
        timeout: Duration,
    ) -> Result<HttpClient, HttpClientError> {
        let invalid = || HttpClientError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let (scheme, authority) = uri.scheme().zip(uri.authority()).ok_or_else(invalid)?;
        let is_https = *scheme == Scheme::HTTPS;
        let has_credentials = authority.as_str().contains('@');
        if !is_https && *scheme != Scheme::HTTP || has_credentials || uri.query().is_some() {
            return Err(invalid());
        }
        // An IPv6 address has brackets only in a URL.
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Ok(HttpClient {
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| invalid())?,
            host: host.unwrap_or(authority.host()).to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if is_https { 443 } else { 80 }),
            path: uri.path().trim_end_matches('/').to_owned(),
            tls: is_https.then(|| connector(authorities)).transpose()?,
            timeout,
        })
    }

    /// The path of the URL, without a slash at its end; empty without a path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sends a request, whose URI is a path, and returns the status and the body of the response.
    ///
    /// # Errors
    /// The server cannot be reached, or did not answer in time.
    pub async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(StatusCode, Bytes), HttpClientError> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.authority.clone());
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let exchange = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            match &self.tls {
                None => exchange(stream, request).await,
                Some(tls) => {
                    let name = ServerName::try_from(self.host.clone());
                    let name = name.map_err(|error| HttpClientError::Tls(error.to_string()))?;
                    exchange(tls.connect(name, stream).await?, request).await
                }
            }
        };
        let exchanged = tokio::time::timeout(self.timeout, exchange).await;
        exchanged.unwrap_or(Err(HttpClientError::Timeout(self.timeout)))
    }
}

/// Sends a request over a new connection.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Body>,
) -> Result<(StatusCode, Bytes), HttpClientError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Body::new(response.into_body());
        Ok((status, axum::body::to_bytes(body, MAX_RESPONSE).await?))
    };
    tokio::pin!(exchange);
    // The connection moves the bytes of the exchange. It can end before the exchange has taken the last of them.
    tokio::select! {
        exchanged = &mut exchange => exchanged,
        _ = connection => exchange.await,
    }
}

fn connector(authorities: Option<&Path>) -> Result<TlsConnector, HttpClientError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => {
            let native = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(native);
        }
        Some(file) => {
            let failed = |problem: String| HttpClientError::Authorities(file.to_owned(), problem);
            let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            let found: Vec<_> = found.map_err(|error| failed(error.to_string()))?;
            if found.is_empty() {
                return Err(failed("the file has no certificate".to_owned()));
            }
            for certificate in found {
                let added = roots.add(certificate);
                added.map_err(|error| failed(error.to_string()))?;
            }
        }
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| HttpClientError::Tls(error.to_string()))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn client(url: &str) -> Result<HttpClient, HttpClientError> {
        HttpClient::new(url, None, Duration::from_secs(60))
    }

    /// A server that answers one request, and what it was sent up to the empty line.
    async fn answer(response: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut received = Vec::new();
            while !received.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).await.expect("a request");
                received.extend(byte);
            }
            stream.write_all(response.as_bytes()).await.expect("sent");
            String::from_utf8(received).expect("text")
        });
        (port, serving)
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).expect("a request")
    }

    #[test]
    fn only_urls_of_servers_are_valid() {
        let parts = |url| {
            client(url)
                .map(|c| (c.host, c.port, c.path))
                .expect("valid")
        };
        let expected = |host: &str, port, path: &str| (host.to_owned(), port, path.to_owned());
        assert_eq!(
            parts("http://localhost:4318"),
            expected("localhost", 4318, "")
        );
        assert_eq!(
            parts("https://a.example/otlp/"),
            expected("a.example", 443, "/otlp")
        );
        assert_eq!(parts("http://[::1]/"), expected("::1", 80, ""));
        for invalid in [
            "",
            "localhost:4318",
            "/v1",
            "ftp://a/",
            "http://",
            "http://u:p@a/",
            "http://a/?b=c",
        ] {
            assert!(
                matches!(client(invalid), Err(HttpClientError::Url(_))),
                "{invalid}"
            );
        }
    }

    #[test]
    fn unusable_certificates_are_an_error_with_the_file() {
        let none = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for file in [none, PathBuf::from("/missing/ca.pem")] {
            let error = HttpClient::new("https://a/", Some(&file), Duration::ZERO).err();
            let error = error.expect("refused").to_string();
            assert!(error.contains(&file.display().to_string()), "{error}");
        }
    }

    #[tokio::test]
    async fn responses_of_each_framing_are_read() {
        for response in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nabcde",
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "HTTP/1.0 404 Not Found\r\n\r\nabcde",
        ] {
            let (port, serving) = answer(response).await;
            let client = client(&format!("http://127.0.0.1:{port}/")).expect("valid");
            let (status, body) = client.send(get("/metrics")).await.expect("a response");
            assert_eq!((status, &body[..]), (StatusCode::NOT_FOUND, &b"abcde"[..]));
            let request = serving.await.expect("a request").to_lowercase();
            assert!(
                request.starts_with("get /metrics http/1.1\r\n"),
                "{request}"
            );
            assert!(
                request.contains(&format!("host: 127.0.0.1:{port}\r\n")),
                "{request}"
            );
        }
    }

    #[tokio::test]
    async fn failures_are_errors() {
        let (port, serving) = answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").await;
        let short = client(&format!("http://127.0.0.1:{port}")).expect("valid");
        let error = short.send(get("/")).await.expect_err("incomplete");
        assert!(matches!(error, HttpClientError::Body(_)), "{error}");
        // The server has answered its only request, and ends.
        serving.await.expect("a request");
        let error = short.send(get("/")).await.expect_err("nobody listens");
        assert!(matches!(error, HttpClientError::Connect(_)), "{error}");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let limit = Duration::from_millis(10);
        let silent = HttpClient::new(&format!("http://127.0.0.1:{port}"), None, limit);
        let error = silent
            .expect("valid")
            .send(get("/"))
            .await
            .expect_err("a timeout");
        assert!(matches!(error, HttpClientError::Timeout(_)), "{error}");
    }
}
