//! What the log is made of.

use std::path::PathBuf;

/// A user was shown an item.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Who.
    pub user: Box<str>,
    /// What.
    pub item: Box<str>,
    /// When, in seconds since 1970; 0 where nobody knows.
    pub time: u32,
    /// How much it counts.
    pub weight: f32,
    /// What tells this event from others: one that came before does not count again.
    pub event: Option<Box<str>>,
}

/// What an item is called, and where people find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// The item.
    pub item: Box<str>,
    /// Empty for none.
    pub title: Box<str>,
    /// Empty for none.
    pub link: Box<str>,
}

/// What is known of a user, in the order of a model's features.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Tells which features these are, by name and in order: see [`crate::fold::described_by`].
    pub names: u64,
    /// The user.
    pub user: Box<str>,
    /// A number for each feature.
    pub values: Box<[f32]>,
}

/// How far a stream was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offset {
    /// The stream.
    pub source: Box<str>,
    /// Its part.
    pub partition: u32,
    /// What comes next there.
    pub next: u64,
}

/// What is written at once. It is there whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Users were shown items; and how far the streams that said so were read.
    Exposures(Vec<Shown>, Vec<Offset>),
    /// Items have titles.
    Titles(Vec<Title>),
    /// Users have features.
    Features(Vec<Feature>),
    /// A user is to be forgotten: everything before this entry.
    Forget(Box<str>),
    /// The log was closed in good order.
    Closed,
}

/// What became of an entry: it is on the disk, and questions see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Exposures that count.
    pub accepted: u64,
    /// Exposures whose event was there before.
    pub duplicates: u64,
    /// The position of the last thing that was written: exposures count one each, other entries one.
    pub seq: u64,
}

/// Why an entry was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too much waits to be written already.
    #[error("too much waits to be written: try again in a moment")]
    QueueFull,
    /// The disk has too little room.
    #[error("the disk of {} has too little room left", .0.display())]
    DiskFull(PathBuf),
    /// A write failed, and nothing more is written until the service is started again.
    #[error("the log could not be written: {0}; nothing more is taken until the service is started again")]
    Failed(String),
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
}
