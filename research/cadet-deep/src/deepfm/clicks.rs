//! What DeepFM is trained on: clicks, and the categories of users and items.

/// Whose property a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The user's.
    User,
    /// The item's.
    Item,
}

/// A categorical property: for every user (or item) none, one or several of its categories.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub(super) name: String,
    pub(super) side: Side,
    pub(super) categories: usize,
    offsets: Vec<u32>,
    values: Vec<u32>,
}

impl Field {
    /// A field from the categories of every member; categories are numbered from 0.
    pub fn new<'a>(
        name: impl Into<String>,
        side: Side,
        members: impl IntoIterator<Item = &'a [u32]>,
    ) -> Self {
        let (mut offsets, mut values) = (vec![0], Vec::new());
        for categories in members {
            values.extend_from_slice(categories);
            offsets.push(values.len() as u32);
        }
        let categories = values.iter().max().map_or(0, |c| *c as usize + 1);
        Self { name: name.into(), side, categories, offsets, values }
    }

    /// The field in which every member is its own category.
    pub fn id(name: impl Into<String>, side: Side, members: usize) -> Self {
        let values: Vec<u32> = (0..members as u32).collect();
        Self::new(name, side, values.chunks_exact(1))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn members(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn of(&self, member: u32) -> &[u32] {
        let at = member as usize;
        &self.values[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    pub(super) fn of_click(&self, clicks: &Clicks, i: u32) -> &[u32] {
        self.of(match self.side {
            Side::User => clicks.users[i as usize],
            Side::Item => clicks.items[i as usize],
        })
    }
}

/// Who was shown what, and did they click?
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clicks {
    /// Users.
    pub users: Vec<u32>,
    /// Items.
    pub items: Vec<u32>,
    /// Whether the user clicked.
    pub clicked: Vec<bool>,
}

impl Clicks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, user: u32, item: u32, clicked: bool) {
        self.users.push(user);
        self.items.push(item);
        self.clicked.push(clicked);
    }
}
