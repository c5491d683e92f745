//! How is the service to be started? Flags, `CADET_SERVE__…` in the environment and `[serve]` in `cadet.toml` come
//! together here, in this order.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::HeaderValue;
use cadet::{Error, Result};
use serde::Deserialize;

use crate::http::keys::Keys;
use crate::http::tls::TlsFiles;

/// Where the service listens when nothing else is said.
pub const LISTEN: &str = "127.0.0.1:8377";
/// The environment's name for keys: the path of a keys file, or what stands in one.
pub const KEYS: &str = "CADET_SERVE_KEYS";
/// What names of settings begin with in the environment.
const PREFIX: &str = "CADET_SERVE__";

/// What can be said of how the service is started; what is not said is as in [`Config::default`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// The address and the port.
    pub listen: Option<String>,
    /// The keys file.
    pub keys: Option<PathBuf>,
    /// The certificate, for TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Whether others than this machine may come without keys.
    pub insecure_no_auth: Option<bool>,
    /// Other names of this service.
    pub allowed_host: Option<Vec<String>>,
    /// Origins of web pages that may ask.
    pub cors_origin: Option<Vec<String>>,
    /// Whether ids may stand in logs.
    pub log_ids: Option<bool>,
    /// Whether requests are logged.
    pub access_log: Option<bool>,
    /// Whether there are no pages for people.
    pub no_dashboard: Option<bool>,
}

/// How the service is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where its keys are.
    pub keys: Option<KeySource>,
    /// What it is secured with; plain HTTP without.
    pub tls: Option<TlsFiles>,
    /// Whether others than this machine may come without keys.
    pub insecure_no_auth: bool,
    /// Names that it is called by, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask.
    pub cors_origins: Vec<HeaderValue>,
    /// Whether ids may stand in logs.
    pub log_ids: bool,
    /// Whether requests are logged.
    pub access_log: bool,
    /// Whether there are pages for people.
    pub dashboard: bool,
}

/// Where keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A keys file.
    File(PathBuf),
    /// What stands in one, from the environment.
    Text(String),
}

impl KeySource {
    /// Reads the keys.
    pub fn read(&self) -> Result<Keys> {
        match self {
            KeySource::File(path) => Keys::read(path),
            KeySource::Text(text) => Keys::parse(text, KEYS.as_ref()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8377)),
            keys: None,
            tls: None,
            insecure_no_auth: false,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            log_ids: false,
            access_log: false,
            dashboard: true,
        }
    }
}

impl Given {
    /// What the environment says.
    pub fn of_environment(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut given = Self::default();
        for (name, value) in variables {
            if name == KEYS {
                // `CADET_SERVE_KEYS` may be a table, too: see `Config::resolve`.
                given.keys = Some(value.into());
                continue;
            }
            let Some(setting) = name.strip_prefix(PREFIX) else { continue };
            given
                .set(setting, &value)
                .map_err(|why| Error::config("environment", format!("{name}: {why}")))?;
        }
        Ok(given)
    }

    fn set(&mut self, setting: &str, value: &str) -> Result<(), String> {
        let truth = || match value {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(format!("expected true or false, found {value:?}")),
        };
        let list = || Some(value.split(',').map(|part| part.trim().to_owned()).collect());
        match setting {
            "LISTEN" => self.listen = Some(value.to_owned()),
            "KEYS" => self.keys = Some(value.into()),
            "TLS_CERT" => self.tls_cert = Some(value.into()),
            "TLS_KEY" => self.tls_key = Some(value.into()),
            "INSECURE_NO_AUTH" => self.insecure_no_auth = truth()?,
            "ALLOWED_HOST" => self.allowed_host = list(),
            "CORS_ORIGIN" => self.cors_origin = list(),
            "LOG_IDS" => self.log_ids = truth()?,
            "ACCESS_LOG" => self.access_log = truth()?,
            "NO_DASHBOARD" => self.no_dashboard = truth()?,
            _ => return Err("there is no such setting: `cadet serve --help` lists them".to_owned()),
        }
        Ok(())
    }

    /// What this does not say, as another says it.
    pub fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            keys: self.keys.or(other.keys),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            insecure_no_auth: self.insecure_no_auth.or(other.insecure_no_auth),
            allowed_host: self.allowed_host.or(other.allowed_host),
            cors_origin: self.cors_origin.or(other.cors_origin),
            log_ids: self.log_ids.or(other.log_ids),
            access_log: self.access_log.or(other.access_log),
            no_dashboard: self.no_dashboard.or(other.no_dashboard),
        }
    }
}

impl Config {
    /// Checks what is said, once.
    pub fn resolve(given: Given) -> Result<Self> {
        let listen = given.listen.as_deref().unwrap_or(LISTEN);
        let listen: SocketAddr = listen.parse().map_err(|_| {
            Error::config(
                "listen",
                format!("expected an address and a port such as {LISTEN}, found {listen:?}"),
            )
        })?;
        let keys = given.keys.map(|path| match path.to_str() {
            // A path has no line that begins a table.
            Some(text) if text.trim_start().starts_with("[[") => KeySource::Text(text.to_owned()),
            _ => KeySource::File(path),
        });
        let tls = match (given.tls_cert, given.tls_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            (Some(_), None) => {
                return Err(Error::config("tls_key", "a certificate needs its key: pass both"));
            }
            (None, Some(_)) => {
                return Err(Error::config("tls_cert", "a key needs its certificate: pass both"));
            }
        };
        let config = Self {
            listen,
            keys,
            tls,
            insecure_no_auth: given.insecure_no_auth.unwrap_or(false),
            allowed_hosts: given.allowed_host.unwrap_or_default(),
            cors_origins: given
                .cors_origin
                .unwrap_or_default()
                .iter()
                .map(|o| origin(o))
                .collect::<Result<_>>()?,
            log_ids: given.log_ids.unwrap_or(false),
            access_log: given.access_log.unwrap_or(false),
            dashboard: !given.no_dashboard.unwrap_or(false),
        };
        if let Some(host) = config.allowed_hosts.iter().find(|host| host.is_empty() || is_no_host(host)) {
            return Err(Error::config(
                "allowed_host",
                format!("expected a name without a port, found {host:?}"),
            ));
        }
        if config.keys.is_none() && !config.listen.ip().is_loopback() && !config.insecure_no_auth {
            let why = format!(
                "{} can be reached from elsewhere, and there are no keys: make one with `cadet key new --role read \
                 --name NAME`, put its table into a file and pass --keys FILE; or pass --insecure-no-auth to let \
                 everybody do everything",
                config.listen
            );
            return Err(Error::config("listen", why));
        }
        Ok(config)
    }
}

/// Whether a text cannot be the name of a host: one with a port, with a path or of many hosts.
fn is_no_host(text: &str) -> bool {
    text.contains(['/', '*']) || (text.contains(':') && !(text.starts_with('[') && text.ends_with(']')))
}

/// An origin as browsers send it: `*` and anything with a path never is one.
fn origin(text: &str) -> Result<HeaderValue> {
    let host = text.strip_prefix("https://").or(text.strip_prefix("http://"));
    let is_origin =
        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', '?', '#', '@', ' ']));
    let value = HeaderValue::from_str(text).ok().filter(|_| is_origin);
    value.ok_or_else(|| {
        Error::config(
            "cors_origin",
            format!("expected an origin such as https://shop.example, found {text:?}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(address: &str) -> Given {
        Given { listen: Some(address.into()), ..Given::default() }
    }

    #[test]
    fn without_keys_only_this_machine_is_served_unless_that_is_wanted() {
        let refused = Config::resolve(listening("0.0.0.0:80")).unwrap_err().to_string();
        assert!(
            refused.contains("cadet key new --role read") && refused.contains("--insecure-no-auth"),
            "{refused}"
        );
        assert!(Config::resolve(listening("[::]:80")).is_err());
        assert!(Config::resolve(listening("[::1]:80")).is_ok());
        let open = Given { insecure_no_auth: Some(true), ..listening("0.0.0.0:80") };
        assert!(Config::resolve(open).is_ok());
        let keys = Given { keys: Some("keys.toml".into()), ..listening("0.0.0.0:80") };
        assert!(Config::resolve(keys).is_ok());
        assert_eq!(Config::resolve(Given::default()).unwrap(), Config::default());
    }

    #[test]
    fn the_environment_says_what_flags_do_not() {
        let variables =
            [("CADET_SERVE__LISTEN", "127.0.0.1:1"), ("CADET_SERVE__LOG_IDS", "1"), ("HOME", "/")];
        let said = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
        let given = listening("127.0.0.1:2").or(Given::of_environment(said).unwrap());
        assert_eq!((given.listen.as_deref(), given.log_ids), (Some("127.0.0.1:2"), Some(true)));
        let unknown = [("CADET_SERVE__LISTN".to_owned(), "x".to_owned())].into_iter();
        assert!(Given::of_environment(unknown).unwrap_err().to_string().contains("CADET_SERVE__LISTN"));
    }

    #[test]
    fn origins_are_exact() {
        for wrong in ["*", "shop.example", "https://", "https://*.example", "https://a/b", "null"] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
        assert!(origin("https://shop.example:8443").is_ok());
    }
}
