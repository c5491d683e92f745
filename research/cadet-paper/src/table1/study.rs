//! What the MovieLens study knows: who rated what, who the users are, what the films are.

use std::path::Path;

use super::protocol::LEAST;
use anyhow::Result;
use cadet::{Error, Exposures, IdRef, Ids};
use cadet_data::{ReadOptions, movielens, read_exposures};
use cadet_deep::deepfm::{Clicks, Field, Side};

/// A property of users that nominal and anomalous are defined by.
#[derive(Debug)]
pub(crate) struct LabelColumn {
    pub name: &'static str,
    pub category: Vec<Option<u32>>,
    pub categories: usize,
}

/// The labels that the paper tests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LabelName {
    /// Five bins of age.
    Age,
    /// 21 occupations.
    Occupation,
}

impl LabelName {
    pub const ALL: [LabelName; 2] = [LabelName::Age, LabelName::Occupation];
}

/// Everything that was read.
pub(crate) struct Study {
    pub users: Ids,
    pub items: Ids,
    pub exposures: Exposures,
    /// Every rating but the 3s; 4 and 5 are clicks.
    pub clicks: Clicks,
    /// Gender, age, occupation and zip code.
    pub private: Vec<Field>,
    pub genres: Field,
    genre_lists: Vec<Vec<String>>,
    pub labels: Vec<LabelColumn>,
    /// Age as MovieLens has it.
    pub age_codes: LabelColumn,
}

/// The paper says five bins; MovieLens has seven age codes. The three oldest are put together.
const AGES: [&[u32]; 5] = [&[1], &[18], &[25], &[35], &[45, 50, 56]];
const AGE_CODES: [u32; 7] = [1, 18, 25, 35, 45, 50, 56];
const OCCUPATIONS: usize = 21;

impl Study {
    /// Reads a MovieLens 1M folder.
    pub fn read(folder: &Path, labels: &[LabelName]) -> Result<Self> {
        for name in ["ratings.dat", "users.dat", "movies.dat"] {
            if !folder.join(name).is_file() {
                let why = format!(
                    "{} has no {name}: give the folder of MovieLens 1M, with ratings.dat, users.dat and movies.dat",
                    folder.display()
                );
                return Err(Error::config("--data", why).into());
            }
        }
        let log = read_exposures(&[folder.to_owned()], &ReadOptions::default(), &|_| {})?.log;
        let (users, items) = (log.users, log.items);
        let mut clicks = Clicks::default();
        for rating in movielens::stars(folder)?.iter().filter(|r| r.stars != 3) {
            let user = users.get(IdRef::Int(rating.user_id));
            let item = items.get(IdRef::Int(rating.movie_id));
            if let (Some(user), Some(item)) = (user, item) {
                clicks.push(user, item, rating.stars > 3);
            }
        }

        let mut about: Vec<Option<movielens::User>> = vec![None; users.len()];
        for user in movielens::users(folder)? {
            if let Some(u) = users.get(IdRef::Int(user.user_id)) {
                about[u as usize] = Some(user);
            }
        }
        if let Some(missing) = about.iter().position(Option::is_none) {
            let why = format!(
                "{} says nothing about user {} of ratings.dat",
                folder.join("users.dat").display(),
                users.name(missing as u32)
            );
            return Err(Error::config("--data", why).into());
        }
        let about: Vec<movielens::User> = about.into_iter().flatten().collect();
        let odd = |u: &&movielens::User| !AGE_CODES.contains(&u.age) || u.occupation as usize >= OCCUPATIONS;
        if let Some(user) = about.iter().find(odd) {
            let why = format!(
                "{}: user {} has age {} and occupation {}: expected an age code ({AGE_CODES:?}) and an occupation below {OCCUPATIONS}",
                folder.join("users.dat").display(),
                user.user_id,
                user.age,
                user.occupation
            );
            return Err(Error::config("--data", why).into());
        }
        let age = |u: &movielens::User| AGES.iter().position(|bin| bin.contains(&u.age)).map(|c| c as u32);
        let code = |u: &movielens::User| AGE_CODES.iter().position(|c| *c == u.age).map(|c| c as u32);
        let occupation = |u: &movielens::User| Some(u.occupation).filter(|o| (*o as usize) < OCCUPATIONS);
        let column = |name, of: &dyn Fn(&movielens::User) -> Option<u32>, categories| LabelColumn {
            name,
            category: about.iter().map(of).collect(),
            categories,
        };
        let label = |name: &LabelName| match name {
            LabelName::Age => column("age", &age, AGES.len()),
            LabelName::Occupation => column("occupation", &occupation, OCCUPATIONS),
        };
        let labels = labels.iter().map(label).collect();
        let private = vec![
            field("gender", Side::User, about.iter().map(|u| vec![u.gender.clone()])),
            field("age", Side::User, about.iter().map(|u| vec![u.age.to_string()])),
            field("occupation", Side::User, about.iter().map(|u| vec![u.occupation.to_string()])),
            field("zip", Side::User, about.iter().map(|u| vec![u.zip.clone()])),
        ];

        let mut genre_lists: Vec<Vec<String>> = vec![Vec::new(); items.len()];
        for film in movielens::titles(folder)? {
            if let Some(i) = items.get(IdRef::Int(film.movie_id)) {
                genre_lists[i as usize] = film.genres;
            }
        }
        if let Some(missing) = genre_lists.iter().position(Vec::is_empty) {
            let why = format!(
                "{} says nothing about film {} of ratings.dat",
                folder.join("movies.dat").display(),
                items.name(missing as u32)
            );
            return Err(Error::config("--data", why).into());
        }
        let genres = field("genres", Side::Item, genre_lists.iter().cloned());
        let age_codes = column("age", &code, AGE_CODES.len());
        if !log.exposures.audiences().any(|(_, a)| a.instances.len() >= LEAST[0]) {
            let why = format!("no film has {} different users in {}", LEAST[0], folder.display());
            return Err(Error::config("--data", why).into());
        }
        Ok(Self {
            users,
            items,
            exposures: log.exposures,
            clicks,
            private,
            genres,
            genre_lists,
            labels,
            age_codes,
        })
    }

    /// The genres of a film.
    pub fn genres_of(&self, film: u32) -> Vec<&str> {
        self.genre_lists[film as usize].iter().map(String::as_str).collect()
    }
}

/// Numbers the names that occur, in order of appearance.
fn field(name: &str, side: Side, members: impl Iterator<Item = Vec<String>>) -> Field {
    let mut places = std::collections::HashMap::new();
    let lists: Vec<Vec<u32>> = members
        .map(|list| {
            let number = |n: String| {
                let next = places.len() as u32;
                *places.entry(n).or_insert(next)
            };
            list.into_iter().map(number).collect()
        })
        .collect();
    Field::new(name, side, lists.iter().map(Vec::as_slice))
}
