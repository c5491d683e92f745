//! Who was asked about lately? A model that knows too few of them does not take over.

use std::sync::Mutex;

/// So many questions are remembered.
const KEPT: usize = 4096;

/// Users of the last questions; each as often as it was asked about.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    users: Vec<String>,
    next: usize,
}

impl Asked {
    /// Remembers a user. One of two that come at the same moment may be passed over: nobody waits.
    pub(crate) fn note(&self, user: &str) {
        let Ok(mut ring) = self.0.try_lock() else { return };
        let next = ring.next;
        if ring.users.len() < KEPT {
            ring.users.push(user.to_owned());
        } else {
            // No memory is taken once all of it was.
            ring.users[next].clear();
            ring.users[next].push_str(user);
        }
        ring.next = (next + 1) % KEPT;
    }

    /// How many of the remembered users pass, and how many there are.
    pub(crate) fn count(&self, passes: impl Fn(&str) -> bool) -> (usize, usize) {
        let users = self.0.lock().unwrap_or_else(|e| e.into_inner()).users.clone();
        (users.iter().filter(|user| passes(user)).count(), users.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let asked = Asked::default();
        (0..KEPT + 100).for_each(|i| asked.note(&i.to_string()));
        assert_eq!(asked.count(|user| user.parse::<usize>().unwrap() >= KEPT), (100, KEPT));
        assert_eq!(asked.count(|user| user == "99").0, 0);
        assert_eq!(asked.count(|user| user == "100").0, 1);
    }
}
