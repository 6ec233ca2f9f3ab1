//! TLS of the listeners: the certificate of `[http.tls]`, which can be replaced while the process runs.

use super::files;
use crate::domain::config::HttpTlsConfig;
use arc_swap::ArcSwap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// The protocol that clients may negotiate.
const ALPN: &[u8] = b"http/1.1";

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read, or has no certificate or key in PEM form.
    #[error("{0}: {1}")]
    File(PathBuf, pem::Error),
    /// The file has no certificate.
    #[error("{0}: no certificate")]
    NoCertificate(PathBuf),
    /// The key is not that of the certificate, or not supported.
    #[error("http.tls: {0}")]
    Key(#[from] rustls::Error),
    /// The process cannot handle signals.
    #[error("cannot handle SIGHUP: {0}")]
    Signal(#[from] io::Error),
}

/// The certificate and key of the listeners.
pub struct Tls {
    settings: HttpTlsConfig,
    current: ArcSwap<Loaded>,
}

/// A certificate as it was read.
struct Loaded {
    chain: Vec<CertificateDer<'static>>,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the certificate. Returns `None` if none is configured. Must be called in a Tokio runtime: a background task reads changed files
    /// again, and all files at SIGHUP.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn start(settings: &HttpTlsConfig) -> Result<Option<Arc<Tls>>, TlsError> {
        if settings.cert_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let tls = Arc::new(Tls {
            settings: settings.clone(),
            current: ArcSwap::from_pointee(Loaded::read(settings)?),
        });
        let files = vec![settings.cert_file.clone(), settings.key_file.clone()];
        files::watch(files, &tls, |tls: &Tls| {
            if let Err(error) = tls.reload() {
                tracing::error!(%error, "cannot read the certificate again: the old one stays");
            }
        })?;
        Ok(Some(tls))
    }

    /// Accepts connections with the certificate as it is now.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.load().config))
    }

    fn reload(&self) -> Result<(), TlsError> {
        let loaded = Loaded::read(&self.settings)?;
        if loaded.chain != self.current.load().chain {
            tracing::info!("read the certificate again");
        }
        // Always: the key can change without its certificate.
        self.current.store(Arc::new(loaded));
        Ok(())
    }
}

impl Loaded {
    fn read(settings: &HttpTlsConfig) -> Result<Loaded, TlsError> {
        let HttpTlsConfig {
            cert_file,
            key_file,
        } = settings;
        let chain = read_chain(cert_file)?;
        let key = PrivateKeyDer::from_pem_file(key_file);
        let key = key.map_err(|error| TlsError::File(key_file.clone(), error))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(chain.clone(), key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Loaded {
            chain,
            config: Arc::new(config),
        })
    }
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| TlsError::File(file.to_owned(), error);
    let chain = CertificateDer::pem_file_iter(file).map_err(failed)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    match chain.is_empty() {
        true => Err(TlsError::NoCertificate(file.to_owned())),
        false => Ok(chain),
    }
}
