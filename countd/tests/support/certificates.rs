//! Certificates of the tests, and a client of countd over TLS.

use countint_tests::env::deadline;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority that issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// The files of a certificate and its key.
pub struct Files {
    /// The certificate.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Authorities are told apart by their names, before their keys.
static NUMBER: AtomicU32 = AtomicU32::new(1);

fn name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

impl Authority {
    /// A new authority.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name = name(&format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes its own certificate.
    pub fn write(&self, file: &Path) -> PathBuf {
        fs::write(file, &self.pem).expect("written");
        file.to_owned()
    }

    /// Issues a certificate for a name or an address, and writes it into a directory.
    pub fn issue(&self, dir: &Path, host: &str) -> Files {
        self.issue_until(dir, host, 4000)
    }

    /// The same with the year in which it expires.
    pub fn issue_until(&self, dir: &Path, host: &str, year: i32) -> Files {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.distinguished_name = name(host);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = Files {
            cert: dir.join(format!("{host}.crt")),
            key: dir.join(format!("{host}.key")),
        };
        fs::write(&files.cert, certificate.pem()).expect("written");
        fs::write(&files.key, key.serialize_pem()).expect("written");
        files
    }

    /// Sends `GET path` over TLS to 127.0.0.1. Returns the response.
    ///
    /// # Errors
    /// The certificate of the server is not of this authority, or the connection ended.
    pub fn get(&self, port: u16, path: &str) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("a certificate");
        roots.add(own).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "127.0.0.1".try_into().expect("an address");
        let client = ClientConnection::new(Arc::new(config), name).expect("a configuration");
        let socket = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        socket
            .set_read_timeout(Some(deadline(60)))
            .expect("a timeout");
        let mut stream = StreamOwned::new(client, socket);
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .map_err(|error| error.to_string())?;
        let mut response = Vec::new();
        match stream.read_to_end(&mut response) {
            Err(error) if response.is_empty() => Err(error.to_string()),
            _ => String::from_utf8(response).map_err(|error| error.to_string()),
        }
    }
}
