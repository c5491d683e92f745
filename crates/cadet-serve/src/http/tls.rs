//! How is the service reached over TLS? With the certificate and the key of two PEM files, which SIGHUP has it read
//! again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use cadet::{Error, Result};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it, in this order.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What connections are secured with.
#[derive(Debug, Clone)]
pub struct Tls {
    files: TlsFiles,
    config: RustlsConfig,
}

impl Tls {
    /// Reads the files.
    pub fn read(files: &TlsFiles) -> Result<Self> {
        let config = RustlsConfig::from_config(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), config })
    }

    /// Reads the files again: connections from now on go by them. Where that fails, those of before stay.
    pub fn reload(&self) -> Result<()> {
        self.config.reload_from_config(Arc::new(read(&self.files)?));
        Ok(())
    }

    /// Secures the connections that another one accepts. A handshake that takes longer than 10 s ends them.
    pub fn secure<A>(&self, acceptor: A) -> RustlsAcceptor<A> {
        RustlsAcceptor::new(self.config.clone()).acceptor(acceptor)
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig> {
    let wrong = |path: &Path, why: String| Error::config("tls", format!("{}: {why}", path.display()));
    let certs = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| wrong(&files.cert, format!("expected a certificate as PEM: {e}")))?;
    if certs.is_empty() {
        return Err(wrong(&files.cert, "expected a certificate as PEM, found none".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|e| wrong(&files.key, format!("expected a private key as PEM: {e}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key));
    let mut config =
        config.map_err(|e| wrong(&files.key, format!("does not go with {}: {e}", files.cert.display())))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
