//! `cadet serve` over TLS, with a certificate that is read again.
#![allow(missing_docs)]

mod place;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use place::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Ends the process, however the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tls").join(name)
}

/// What is answered to somebody who trusts the certificate of the tests and no other.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(testdata("cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(client, stream);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    // Whether the end is said in so many words is nothing to us.
    let _ = stream.read_to_end(&mut answer);
    Ok(String::from_utf8(answer).unwrap())
}

#[test]
fn questions_over_tls_are_answered_and_plain_ones_are_not() {
    let place = Place::new();
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(testdata(name), place.path(name)).unwrap();
    }
    std::fs::create_dir(place.path("data")).unwrap();
    place.refused("serve data --tls-cert cert.pem", &["--tls-key", "pass both"]);
    place.refused("serve data --tls-cert cert.pem --tls-key cert.pem", &["cert.pem", "private key"]);
    place.refused("serve data --tls-cert key.pem --tls-key key.pem", &["key.pem", "certificate"]);
    let mut child = place
        .command("serve data --listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let running = Running(child);
    let address = lines.find_map(|line| Some(line.split_once("https://")?.1.trim().to_owned())).unwrap();
    let answer = get(&address, "/livez").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(plain, "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("200"));
    // A certificate that cannot be read leaves that of before.
    std::fs::write(place.path("cert.pem"), "no certificate").unwrap();
    let told = Command::new("kill").args(["-HUP", &running.0.id().to_string()]).status().unwrap();
    assert!(told.success());
    let said = lines.find(|line| line.contains("certificate")).unwrap();
    assert!(said.contains("that of before stays"), "{said}");
    assert!(get(&address, "/livez").unwrap().starts_with("HTTP/1.1 200"));
}
