//! `cadet key new`: a key for the service, and what its keys file knows it by.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use cadet_serve::http::keys::{Role, new_key};
use serde_json::json;

use crate::args::{Global, KeyNew, KeyRole};
use crate::output;
use crate::settings::Usage;

pub(crate) fn new(args: &KeyNew, global: &Global) -> Result<()> {
    let expires = args.expires.as_deref().map(end).transpose()?;
    let key = new_key(role(args.role), &args.name, expires)?;
    if global.json {
        return output::print_json(&json!({"key": key.secret, "table": key.table}));
    }
    output::print(&format!("{}\n\n# For the keys file:\n{}", key.secret, key.table))
}

fn role(role: KeyRole) -> Role {
    match role {
        KeyRole::Read => Role::Read,
        KeyRole::Ingest => Role::Ingest,
        KeyRole::Admin => Role::Admin,
    }
}

/// `90d` from now, in seconds since 1970.
fn end(text: &str) -> Result<u64> {
    let refuse =
        || Usage(format!("--expires: expected a number of days or hours such as 90d or 12h, found {text:?}"));
    let unit = match text.bytes().last() {
        Some(b'd') => 86_400,
        Some(b'h') => 3_600,
        _ => return Err(refuse().into()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| refuse())?;
    // A hundred years are for ever, and all that a time can hold.
    let lasts = number
        .checked_mul(unit)
        .filter(|lasts| (1..=100 * 366 * 86_400).contains(lasts))
        .ok_or_else(refuse)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    Ok(now + lasts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_number_of_days_or_hours() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(end("90d").unwrap() >= now + 90 * 86_400);
        assert!(end("12h").unwrap() >= now + 12 * 3_600);
        for wrong in ["", "d", "90", "-1d", "0d", "99999999999999999999d", "36601d", "90é"] {
            assert!(end(wrong).unwrap_err().to_string().contains("--expires"), "{wrong}");
        }
    }
}
