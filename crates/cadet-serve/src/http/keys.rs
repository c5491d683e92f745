//! Whose key is it, and what may it do? Keys are known by their SHA-256 alone, in a file of `[[key]]` tables with
//! `name`, `role`, `sha256` and, if they end, `expires`.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cadet::{At, Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// More keys than this are a mistake.
const MOST_KEYS: usize = 10_000;
/// A keys file of more bytes is refused.
const LONGEST_FILE: u64 = 8 << 20;

/// What a key may do. `admin` may do everything; `ingest` alone cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Ask questions.
    Read,
    /// Send what users were shown, titles and features.
    Ingest,
    /// Everything: promote models, forget users, make backups.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Read, Role::Ingest, Role::Admin];

    /// As it stands in keys files and in the description of the API.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Ingest => "ingest",
            Role::Admin => "admin",
        }
    }

    /// The role of a name.
    pub fn of(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    fn letter(self) -> char {
        match self {
            Role::Read => 'r',
            Role::Ingest => 'w',
            Role::Admin => 'a',
        }
    }
}

/// The roles of a key: one, or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// Those that may do everything.
    pub const ALL: Roles = Roles(0b111);

    /// These roles.
    pub fn of(roles: &[Role]) -> Self {
        Self(roles.iter().fold(0, |bits, role| bits | 1 << *role as u8))
    }

    /// Whether they may do what a role is needed for.
    pub fn covers(self, needed: Role) -> bool {
        let has = |role: Role| self.0 & (1 << role as u8) != 0;
        has(Role::Admin) || has(needed)
    }

    /// What they may do, by name: admin has all.
    pub fn list(self) -> Vec<Role> {
        Role::ALL.into_iter().filter(|role| self.covers(*role)).collect()
    }

    /// Those that were given, without what they bring with them.
    fn given(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.0 & (1 << *role as u8) != 0)
    }
}

/// The SHA-256 of a key.
pub type Fingerprint = [u8; 32];

/// The SHA-256 of a key. Looking it up tells nothing of the key by how long it takes, and a key of 192 random
/// bits needs no slow hash.
pub fn fingerprint(key: &[u8]) -> Fingerprint {
    Sha256::digest(key).into()
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What people call it.
    pub name: Arc<str>,
    /// What it may do.
    pub roles: Roles,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// The keys that are known. Without any, everybody who reaches the service may do everything.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    by_fingerprint: HashMap<Fingerprint, Key>,
}

/// Why a key does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey {
    /// It is not known.
    Unknown,
    /// It was, until it ended.
    Expired,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<FileKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKey {
    name: String,
    role: FileRoles,
    sha256: String,
    expires: Option<String>,
}

/// `role = "read"`, or `role = ["read", "ingest"]`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "role: expected read, ingest or admin, or a list of them")]
enum FileRoles {
    One(Role),
    Many(Vec<Role>),
}

impl Keys {
    /// Reads a keys file.
    pub fn read(path: &Path) -> Result<Self> {
        let size = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
        if size > LONGEST_FILE {
            return Err(Error::data(path, At::File, format!("{size} bytes are too many for a keys file")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        Self::parse(&text, path)
    }

    /// Reads what stands in a keys file; `from` is what errors call it.
    pub fn parse(text: &str, from: &Path) -> Result<Self> {
        let refuse = |what: String| Error::data(from, At::File, what);
        // What the parser quotes of the file might be a key that was put there by mistake.
        let file: File = toml::from_str(text).map_err(|e| {
            let line =
                e.span().map_or(At::File, |s| At::Line(1 + text[..s.start].matches('\n').count() as u64));
            Error::data(from, line, e.message().to_owned())
        })?;
        if file.key.is_empty() {
            return Err(refuse("no key: `cadet key new --role read --name NAME` makes one".into()));
        }
        if file.key.len() > MOST_KEYS {
            return Err(refuse(format!("{} keys: {MOST_KEYS} at the most", file.key.len())));
        }
        let mut keys = Keys::default();
        for (number, key) in file.key.into_iter().enumerate() {
            let refuse = |what: String| refuse(format!("key {} ({:?}): {what}", number + 1, key.name));
            if key.name.is_empty() || key.name.len() > 64 {
                return Err(refuse("a name has 1 to 64 bytes".into()));
            }
            let print = unhex(&key.sha256).ok_or_else(|| {
                refuse("sha256: expected 64 hexadecimal digits, as `cadet key new` prints them".into())
            })?;
            let expires = key.expires.as_deref().map(seconds).transpose();
            let expires = expires.map_err(|why| refuse(format!("expires: {why}")))?;
            let roles = match &key.role {
                FileRoles::One(role) => Roles::of(&[*role]),
                FileRoles::Many(list) => Roles::of(list),
            };
            if roles == Roles::default() {
                return Err(refuse("role: expected read, ingest or admin".into()));
            }
            let known = Key { name: key.name.as_str().into(), roles, expires };
            if keys.by_fingerprint.insert(print, known).is_some() {
                return Err(refuse("the same sha256 stands above it".into()));
            }
        }
        Ok(keys)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_fingerprint.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_fingerprint.len()
    }

    /// The key of a fingerprint, if it has not ended.
    pub fn find(&self, print: &Fingerprint, now: u64) -> Result<&Key, NoKey> {
        let key = self.by_fingerprint.get(print).ok_or(NoKey::Unknown)?;
        if key.expires.is_some_and(|end| end <= now) { Err(NoKey::Expired) } else { Ok(key) }
    }
}

/// A key that was just made: the only time that it is seen.
pub struct NewKey {
    /// What its holder sends.
    pub secret: String,
    /// What goes into the keys file.
    pub table: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

/// Makes a key of 192 random bits.
pub fn new_key(roles: Roles, name: &str, expires: Option<u64>) -> Result<NewKey> {
    let given: Vec<Role> = roles.given().collect();
    if name.is_empty() || name.len() > 64 {
        return Err(Error::config("name", format!("must have 1 to 64 bytes, found {}", name.len())));
    }
    let mut bits = [0; 24];
    getrandom::fill(&mut bits).map_err(|e| Error::config("key", format!("no random numbers: {e}")))?;
    let secret =
        format!("cadet_{}_{}", given.iter().map(|role| role.letter()).collect::<String>(), hex(&bits));
    let mut table = format!(
        "[[key]]\nname = {}\nrole = {}\nsha256 = \"{}\"\n",
        toml::Value::from(name),
        match given[..] {
            [role] => toml::Value::from(role.name()),
            _ => toml::Value::from(given.iter().map(|role| role.name()).collect::<Vec<_>>()),
        },
        hex(&fingerprint(secret.as_bytes()))
    );
    if let Some(end) = expires {
        let end =
            jiff::Timestamp::from_second(end as i64).map_err(|e| Error::config("expires", e.to_string()))?;
        table.push_str(&format!("expires = \"{end}\"\n"));
    }
    Ok(NewKey { secret, table })
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Fingerprint> {
    let mut print = [0; 32];
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in print.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(print)
}

fn seconds(text: &str) -> Result<u64, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| format!("expected a time such as 2027-01-31T00:00:00Z, found {text:?}"))?;
    Ok(time.as_second().max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Keys, String> {
        Keys::parse(text, Path::new("keys.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_new_key_is_found_by_what_its_table_says_until_it_ends() {
        let one = new_key(Roles::of(&[Role::Read, Role::Ingest]), "team \"a\"", None).unwrap();
        let two = new_key(Roles::of(&[Role::Ingest]), "feed", Some(1_000)).unwrap();
        assert!(one.secret.starts_with("cadet_rw_") && one.secret.len() == 9 + 48);
        assert!(!one.table.contains(&one.secret[9..]));
        let keys = read(&format!("{}\n{}", one.table, two.table)).unwrap();
        let find = |secret: &str, now| keys.find(&fingerprint(secret.as_bytes()), now);
        assert_eq!((&*find(&one.secret, 5).unwrap().name, keys.len()), ("team \"a\"", 2));
        assert_eq!(find(&one.secret, 999).unwrap().roles.list(), [Role::Read, Role::Ingest]);
        assert_eq!(find(&two.secret, 999).unwrap().roles.list(), [Role::Ingest]);
        assert_eq!(find(&two.secret, 1_000), Err(NoKey::Expired));
        assert_eq!(find("cadet_r_", 5), Err(NoKey::Unknown));
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        let print = "0".repeat(64);
        let key = |rest: &str| format!("[[key]]\nname = \"a\"\n{rest}");
        assert!(read("").unwrap_err().contains("no key: `cadet key new"));
        assert!(read(&key("role = \"write\"")).unwrap_err().contains("keys.toml line 3"));
        let short = key("role = \"read\"\nsha256 = \"00\"");
        assert!(read(&short).unwrap_err().contains("key 1 (\"a\"): sha256: expected 64"));
        let late = key(&format!("role = \"read\"\nsha256 = \"{print}\"\nexpires = \"soon\""));
        assert!(read(&late).unwrap_err().contains("found \"soon\""));
        let good = key(&format!("role = \"read\"\nsha256 = \"{print}\"\n"));
        assert!(read(&format!("{good}{good}")).unwrap_err().contains("stands above"));
        assert!(read(&key("rôle = 1")).is_err());
    }

    #[test]
    fn admin_covers_all_and_the_others_themselves() {
        let covered = |role: Role| Role::ALL.map(|needed| Roles::of(&[role]).covers(needed));
        assert_eq!(covered(Role::Read), [true, false, false]);
        assert_eq!(covered(Role::Ingest), [false, true, false]);
        assert_eq!(covered(Role::Admin), [true; 3]);
    }
}
