//! How a server is reached: its address and credentials, and TLS.

use super::address::Address;
use crate::domain::config::{RedisConfig, RedisTlsConfig};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisError, TlsCertificates,
};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A connection to a server.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Socket for T {}

/// How a server is reached. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
    /// TLS of the connections that countd opens without the client library; `None` without TLS.
    tls: Option<TlsConnector>,
}

impl Endpoint {
    /// The server of `redis.url`, with the certificates of `redis.tls`.
    ///
    /// # Errors
    /// The URL or a certificate is invalid, or a file cannot be read.
    pub fn open(settings: &RedisConfig) -> Result<Endpoint, RedisError> {
        let info = settings.url.as_str().into_connection_info()?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Ok(Endpoint {
                client: Client::open(info)?,
                tls: None,
            });
        }
        let files = TlsFiles::read(&settings.tls)?;
        let config = files.client_config()?;
        Ok(Endpoint {
            client: Client::build_with_tls(info, files.certificates)?,
            tls: Some(TlsConnector::from(Arc::new(config))),
        })
    }

    /// The same with another client of the same kind.
    pub fn with_client(&self, client: Client) -> Endpoint {
        Endpoint {
            client,
            tls: self.tls.clone(),
        }
    }

    /// The client, with the address and the credentials.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Opens a connection. The caller authenticates.
    ///
    /// # Errors
    /// The server is unavailable, or its certificate is not valid.
    pub async fn connect(&self) -> Result<Box<dyn Socket>, RedisError> {
        let address = self.client.get_connection_info().addr();
        Ok(match (address, &self.tls) {
            (ConnectionAddr::Unix(path), _) => Box::new(UnixStream::connect(path).await?),
            (ConnectionAddr::Tcp(host, port), _) => Box::new(connect_tcp(host, *port).await?),
            (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|error| invalid("host", error))?;
                Box::new(tls.connect(name, connect_tcp(host, *port).await?).await?)
            }
            _ => return Err(invalid("redis.url", "unsupported kind of address")),
        })
    }
}

async fn connect_tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// A client for another server, with the same credentials and TLS.
///
/// # Errors
/// The address is invalid.
pub fn client_at(info: &ConnectionInfo, (host, port): &Address) -> Result<Client, RedisError> {
    let (host, port) = (host.clone(), *port);
    let address = match info.addr() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.clone().set_addr(address))
}

/// The contents of the files of `redis.tls`.
struct TlsFiles {
    certificates: TlsCertificates,
}

impl TlsFiles {
    fn read(settings: &RedisTlsConfig) -> Result<TlsFiles, RedisError> {
        let RedisTlsConfig {
            ca_file,
            cert_file,
            key_file,
        } = settings;
        let client =
            read("redis.tls.cert_file", cert_file)?.zip(read("redis.tls.key_file", key_file)?);
        let client_tls = client.map(|(client_cert, client_key)| ClientTlsConfig {
            client_cert,
            client_key,
        });
        let root_cert = read("redis.tls.ca_file", ca_file)?;
        Ok(TlsFiles {
            certificates: TlsCertificates {
                client_tls,
                root_cert,
            },
        })
    }

    fn client_config(&self) -> Result<ClientConfig, RedisError> {
        let mut roots = RootCertStore::empty();
        match &self.certificates.root_cert {
            Some(pem) => {
                for certificate in certificates("redis.tls.ca_file", pem)? {
                    let added = roots.add(certificate);
                    added.map_err(|error| invalid("redis.tls.ca_file", error))?;
                }
            }
            None => {
                let native = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(native);
            }
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        match &self.certificates.client_tls {
            None => Ok(config.with_no_client_auth()),
            Some(ClientTlsConfig {
                client_cert,
                client_key,
            }) => {
                let chain = certificates("redis.tls.cert_file", client_cert)?;
                let key = PrivateKeyDer::from_pem_slice(client_key);
                let key = key.map_err(|error| invalid("redis.tls.key_file", error))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| invalid("redis.tls.cert_file", error))
            }
        }
    }
}

/// Reads a file. `None` if none is set.
fn read(setting: &'static str, file: &Path) -> Result<Option<Vec<u8>>, RedisError> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let bytes = std::fs::read(file);
    let failed = |error: std::io::Error| invalid(setting, format!("{}: {error}", file.display()));
    bytes.map(Some).map_err(failed)
}

/// The certificates in a PEM file, at least one.
fn certificates(
    setting: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, RedisError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| invalid(setting, error))?;
    match found.is_empty() {
        true => Err(invalid(setting, "the file has no certificate")),
        false => Ok(found),
    }
}

/// An error that a retry does not solve.
fn invalid(setting: &'static str, problem: impl Display) -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, setting, problem.to_string()))
}
