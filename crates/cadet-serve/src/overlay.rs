//! What was shown since the model was folded last: exact counts, visible to the next request.

use std::sync::{Arc, RwLock};

use hashbrown::HashMap as Table;

type HashMap<K, V> = Table<K, V, foldhash::fast::RandomState>;
/// What is kept under each name, behind as many locks as there are shards.
type Shards<V> = Vec<RwLock<HashMap<Box<str>, V>>>;

/// How often a user saw an item, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// Repeats counted.
    pub count: u32,
    /// Seconds since 1970, 0 where nobody knows.
    pub last: u32,
}

impl Sight {
    /// Both together.
    #[must_use]
    pub fn and(self, more: Sight) -> Sight {
        Sight { count: self.count.saturating_add(more.count), last: self.last.max(more.last) }
    }
}

/// Locks that requests and the writer share the pairs out over.
const SHARDS: usize = 64;

/// Pairs that were seen, by user and by item.
#[derive(Debug)]
pub struct Pairs {
    of_users: Shards<HashMap<Box<str>, Sight>>,
    /// The users of each item.
    of_items: Shards<Vec<Box<str>>>,
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs {
            of_users: (0..SHARDS).map(|_| RwLock::default()).collect(),
            of_items: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }
}

fn shard(name: &str) -> usize {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::default().hash_one(name) as usize % SHARDS
}

/// A thread that panicked while it held a lock left whole entries: each is changed in one step.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Pairs {
    /// Counts what a user saw.
    pub fn add(&self, user: &str, item: &str, more: Sight) {
        let mut users = write(&self.of_users[shard(user)]);
        let items = users.entry(user.into()).or_default();
        let is_new = match items.get_mut(item) {
            Some(sight) => {
                *sight = sight.and(more);
                false
            }
            None => items.insert(item.into(), more).is_none(),
        };
        drop(users);
        if is_new {
            write(&self.of_items[shard(item)]).entry(item.into()).or_default().push(user.into());
        }
    }

    /// What happened between a user and an item.
    pub fn get(&self, user: &str, item: &str) -> Sight {
        read(&self.of_users[shard(user)])
            .get(user)
            .and_then(|items| items.get(item))
            .copied()
            .unwrap_or_default()
    }

    /// What a user saw, in no particular order.
    pub fn of_user(&self, user: &str) -> Vec<(Box<str>, Sight)> {
        let users = read(&self.of_users[shard(user)]);
        users
            .get(user)
            .map(|items| items.iter().map(|(item, s)| (item.clone(), *s)).collect())
            .unwrap_or_default()
    }

    /// Who saw an item, in no particular order.
    pub fn of_item(&self, item: &str) -> Vec<(Box<str>, Sight)> {
        let users: Vec<Box<str>> = read(&self.of_items[shard(item)]).get(item).cloned().unwrap_or_default();
        users
            .into_iter()
            .map(|user| (self.get(&user, item), user))
            .map(|(sight, user)| (user, sight))
            .collect()
    }

    /// Whether a user saw anything.
    pub fn has_user(&self, user: &str) -> bool {
        read(&self.of_users[shard(user)]).contains_key(user)
    }

    /// Drops a user.
    pub fn forget(&self, user: &str) {
        let gone = write(&self.of_users[shard(user)]).remove(user);
        for item in gone.into_iter().flat_map(HashMap::into_keys) {
            if let Some(users) = write(&self.of_items[shard(&item)]).get_mut(&item) {
                users.retain(|u| **u != *user);
            }
        }
    }

    /// How many users there are.
    pub fn users(&self) -> usize {
        self.of_users.iter().map(|shard| read(shard).len()).sum()
    }
}

/// Pairs that stand beside a model, in three parts: what it cannot take, what is being folded into its
/// successor, and what came since.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// Users without features where features are given, and items that no pre-embedding model can place: they
    /// are counted here until a model can take them.
    pub waiting: Arc<Pairs>,
    /// What the next model will hold.
    pub folding: Arc<Pairs>,
    /// Where the writer counts.
    pub active: Arc<Pairs>,
}

impl Overlay {
    fn parts(&self) -> [&Pairs; 3] {
        [&self.waiting, &self.folding, &self.active]
    }

    /// What happened between a user and an item beside what the model knows.
    pub fn get(&self, user: &str, item: &str) -> Sight {
        self.parts().into_iter().map(|pairs| pairs.get(user, item)).fold(Sight::default(), Sight::and)
    }

    /// Whether a user saw anything beside what the model knows.
    pub fn has_user(&self, user: &str) -> bool {
        self.parts().into_iter().any(|pairs| pairs.has_user(user))
    }

    /// What a user saw beside what the model knows: an item may come more than once.
    pub fn of_user(&self, user: &str) -> Vec<(Box<str>, Sight)> {
        self.parts().into_iter().flat_map(|pairs| pairs.of_user(user)).collect()
    }

    /// Who saw an item beside those that the model knows: a user may come more than once.
    pub fn of_item(&self, item: &str) -> Vec<(Box<str>, Sight)> {
        self.parts().into_iter().flat_map(|pairs| pairs.of_item(item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let overlay = Overlay::default();
        overlay.active.add("u", "a", Sight { count: 1, last: 5 });
        overlay.active.add("u", "a", Sight { count: 2, last: 3 });
        overlay.folding.add("u", "a", Sight { count: 1, last: 9 });
        overlay.waiting.add("v", "a", Sight { count: 1, last: 0 });
        assert_eq!(overlay.get("u", "a"), Sight { count: 4, last: 9 });
        assert_eq!(overlay.get("u", "b"), Sight::default());
        assert_eq!(overlay.of_item("a").len(), 3);
        assert_eq!(overlay.of_user("u").len(), 2);
        overlay.active.forget("u");
        assert_eq!(overlay.get("u", "a"), Sight { count: 1, last: 9 });
        assert!(overlay.has_user("v") && !overlay.has_user("w"));
    }
}
